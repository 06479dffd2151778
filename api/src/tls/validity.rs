//! The expiry of a certificate.

use chrono::{DateTime, Utc};
use x509_cert::{Certificate, der::Decode as _};

/// Returns the expiry of a certificate (DER).
pub fn expiry(der: &[u8]) -> Option<DateTime<Utc>> {
    let certificate = Certificate::from_der(der).ok()?;
    let ends = certificate.tbs_certificate().validity().not_after.to_unix_duration();
    DateTime::from_timestamp(i64::try_from(ends.as_secs()).ok()?, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A self-signed certificate of `tenure.example`, valid until 2027-06-10T17:25:43Z.
    const CERTIFICATE: &str = "308201873082012da003020102021438b712c40ac79a2470952f52ff828a3ecec231ef300a06082a8648ce3d04030230193117301506035504030c0e74656e7572652e6578616d706c65301e170d3236313132323137323534335a170d3237303631303137323534335a30193117301506035504030c0e74656e7572652e6578616d706c653059301306072a8648ce3d020106082a8648ce3d03010703420004b39b68fbb17398247c93ac911a6b90891a2e37740b3cca159b072f5bb8870dc575e2b6175fd7062986e9c6aabf80ea3e8038ab28efe661f40a32bc302b47131ba3533051301d0603551d0e041604149935c3bbbe52b12f206f283935f6491ff0cd7b85301f0603551d230418301680149935c3bbbe52b12f206f283935f6491ff0cd7b85300f0603551d130101ff040530030101ff300a06082a8648ce3d0403020348003045022100e0abcf708a62917e9d7e28c76572d964cdf8f2bc1d1bebb483c1f27d6db4694102202ed3d7d2203e4890147a10aed1a0f8bf5dfe93f3f15b8d4030bc103b05cb10a7";

    #[test]
    fn the_end_of_a_certificate_is_read_from_it() {
        let der: Vec<u8> = (0..CERTIFICATE.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&CERTIFICATE[at..at + 2], 16).unwrap())
            .collect();
        assert_eq!(expiry(&der).unwrap().to_rfc3339(), "2027-06-10T17:25:43+00:00");
        assert_eq!(expiry(&der[..der.len() - 1]), None);
    }
}
