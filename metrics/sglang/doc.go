// Package sglang reads SGLang's server log: bytes in, typed events out, and a
// fold over the events that answers what a monitor asks.
//
// Records are parsed key by key wherever they stand in a line, in any order, so
// that versions 0.1 to 0.5.18 and lines that were prefixed, glued, wrapped,
// cut or copied from a dashboard are read alike. What a request's text says is
// never taken for the log's own words. Log times are the node's local time
// without a zone (Stamp). The log's "GB" of device memory are GiB; those of the
// host cache are 1e9 bytes.
package sglang
