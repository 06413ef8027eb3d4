#!/usr/bin/env bash
# Builds etcd from its Go module, once, into a cache folder outside the repository, and prints the program.
set -euo pipefail
version=v3.7.3
target=${XDG_CACHE_HOME:-$HOME/.cache}/weir/etcd/$version/etcd
if [ -x "$target" ]; then echo "$target"; exit; fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
echo "building etcd $version (minutes, once) …" >&2
go mod init weir.example/etcd >&2
go get "go.etcd.io/etcd/server/v3@$version" >&2
mkdir -p "$(dirname "$target")"
CGO_ENABLED=0 go build -mod=mod -trimpath -ldflags "-s -w" -o "$target.part" go.etcd.io/etcd/server/v3 >&2
mv "$target.part" "$target"
echo "$target"
