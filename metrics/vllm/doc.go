// Package vllm reads vLLM's server log, V0 to the newest, of both front ends:
// bytes in, typed events out, and a fold over the events that answers what a
// monitor asks.
//
// A record is found by its level and time wherever they stand in a line, so that
// lines which a collector prefixed, a terminal framed, or a progress bar was
// glued to are read alike. What a request's text says is never taken for the
// log's own words. Log times are the node's local time without a year (Stamp).
// "GB" and "GiB" of the log are both GiB.
package vllm
