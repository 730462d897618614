package model

// Launch starts a server with new flags and returns the pid of its main
// process. Its lines, its crash or its exit come with Advance; a launch that
// the real engine would refuse (bad flag, GPUs or port taken) fails in the same
// way, after the same phases.
func (n *Node) Launch(l Launch) int { return 0 }

// StartClient starts a client and returns its pid.
func (n *Node) StartClient(c ClientLaunch) int { return 0 }

// Signal delivers a signal to a process of the node, as kill does; false when
// there is none with that pid. Its effects come with Advance.
func (n *Node) Signal(pid int, s Signal) bool { return false }

// Bind tells the model the real pid of one process, so that listings and
// nvidia-smi show it.
func (n *Node) Bind(role Role, pid int) {}

// HTTP answers a request to the server's port: /health, /health_generate,
// /generate, /v1/loads, /server_info, /model_info, /v1/models, /metrics,
// /abort_request, /flush_cache and /ping as SGLang 0.5.9 does, 404 for others.
// target is path and query. ok is false while the connection would be refused.
// Access lines come in Output.Server.
func (n *Node) HTTP(method, target, authorization string, body []byte) (r Reply, ok bool) {
	return Reply{}, false
}

// NvidiaSMI is the program nvidia-smi: standard output and exit status for its
// arguments without argv[0]. It knows -L, the table, --query-gpu and
// --query-compute-apps with --format=csv and their options, -q -x and --help-query-gpu. With
// -l or -lms it gives one sample; the driver repeats it.
func (n *Node) NvidiaSMI(args []string) (stdout string, code int) { return "", 0 }
