// Package explain tells what a captured file says, with no node at hand: the
// log of a server or a client, the output of nvidia-smi and its relatives,
// /metrics, /server_info, /v1/loads, a kernel log, rows, kubectl output. The
// kind is recognised from the bytes. Nothing here reads a clock or a file.
package explain
