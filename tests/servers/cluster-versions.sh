#!/usr/bin/env bash
# Runs the tests of current clusters with the newest and with the oldest supported Kubernetes; both are built before, if they are not yet.
#
#   cluster-versions.sh [FILTER…]      as for the test binary, by default all of these tests
set -euo pipefail
cd "$(dirname "$0")/../.."
if [ $# -eq 0 ]; then set -- clusters::; fi
for version in newest oldest; do tests/servers/cluster-build.sh $version >/dev/null; done
ended=0
for version in newest oldest; do
    echo "== Kubernetes: $version"
    TENURE_KUBERNETES=$version cargo test --locked -p e2e -- "$@" || ended=1
done
exit $ended
