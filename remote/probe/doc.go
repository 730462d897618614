// Package probe is the agentless sampler: it reads one node over one
// connection and emits what it learns as frames (metrics.Frame).
//
// Nothing is installed on the node. A few long-lived /bin/sh sessions run the
// programs embedded from sh/: ctl (figures of the host, background jobs),
// files, scan and gpu. The client sends one request at a time to each and gets
// an answer that ends in a marker with a nonce; every request has a deadline,
// and a shell that does not answer costs only what it was asked for. When the
// connection closes, the shells see the end of their input and end, with all
// that they started.
//
// A Probe lives as long as one connection. Secrets are masked here, before a
// frame exists.
package probe
