#!/bin/sh
# Gives numba a writable copy of the kernels that the image was built with, then runs fedvalue.
# numba checks that they fit this processor, and compiles them again where they do not.
set -eu
if [ -d "${FEDVALUE_WARM_KERNELS:-}" ] && [ ! -e "$NUMBA_CACHE_DIR" ]; then
  cp -Rp "$FEDVALUE_WARM_KERNELS" "$NUMBA_CACHE_DIR"
fi
exec fedvalue "$@"
