// An OpenID provider on loopback: the certified library `oidc-provider`, with its own pages to sign in and to consent.
//
//   node oidc-provider.mjs REDIRECT_URI       prints `issuer URL` once it accepts connections
//
// Any user name signs in, with any password. The user with the name `nobody` has no group.
import { generateKeyPairSync } from 'node:crypto';
import { createServer } from 'node:http';
import Provider from 'oidc-provider';

const [redirect] = process.argv.slice(2);
const server = createServer().listen(0, '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const key = { ...generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' }), use: 'sig', alg: 'RS256', kid: 'of-this-run' };
  const groups = (sub) => (sub === 'nobody' ? [] : ['gpu-platform']);
  const provider = new Provider(issuer, {
    clients: [
      { client_id: 'tenure', client_secret: 'a secret: with odd / signs', redirect_uris: [redirect] },
      {
        client_id: 'tenure-cli',
        application_type: 'native',
        token_endpoint_auth_method: 'none',
        redirect_uris: [],
        response_types: [],
        grant_types: ['urn:ietf:params:oauth:grant-type:device_code'],
      },
    ],
    claims: { openid: ['sub'], email: ['email', 'email_verified'], groups: ['groups'] },
    scopes: ['openid', 'email', 'groups'],
    findAccount: (_, sub) => ({
      accountId: sub,
      claims: async () => ({ sub, email: `${sub}@example.com`, email_verified: true, groups: groups(sub) }),
    }),
    features: { devInteractions: { enabled: true }, deviceFlow: { enabled: true } },
    conformIdTokenClaims: false,
    cookies: { keys: ['of-this-run'] },
    jwks: { keys: [key] },
    pkce: { required: () => false },
  });
  server.on('request', provider.callback());
  console.log(`issuer ${issuer}`);
});
