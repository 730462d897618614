package metrics

import "time"

// Config is the user's configuration of one node, as the fold needs it.
type Config struct {
	Node string `json:"node"`
	// Targets by dataset path or glob; the path "" is the whole job.
	Targets []ConfigTarget `json:"targets,omitempty"`
	// Datasets, Logs, ServerLogs are watched whether discovered or not.
	Datasets   []string `json:"datasets,omitempty"`
	ClientLogs []string `json:"client_logs,omitempty"`
	ServerLogs []string `json:"server_logs,omitempty"`
	Logs       []string `json:"logs,omitempty"`
	// Endpoint of a server that is not discovered by process, e.g. another engine.
	Endpoint *ConfigEndpoint `json:"endpoint,omitempty"`
	Guards   []Guard         `json:"guards,omitempty"`
	// Thresholds override the defaults by name.
	Thresholds map[string]float64 `json:"thresholds,omitempty"`
	Interval   time.Duration      `json:"interval,omitempty"`
	// Expected tells that a server or client should run here, so that its absence is a finding.
	Expected bool `json:"expected,omitempty"`
	// ClientCommand starts the client; Resumable says that starting it again loses nothing.
	ClientCommand   string `json:"client_command,omitempty"`
	ClientResumable bool   `json:"client_resumable,omitempty"`
	// ServerCommand restarts a supervised server.
	ServerCommand string `json:"server_command,omitempty"`
	// Started is when processes began by their own history, by pid. Only the
	// simulated node claims it: its /proc knows when the demo started them.
	Started map[int]time.Time `json:"started,omitempty"`
	// GuardsFile is the guards-only file on the node, beside the data.
	GuardsFile string `json:"guards_file,omitempty"`
}

// ConfigTarget is a number of wanted rows.
type ConfigTarget struct {
	Path string `json:"path"`
	Rows int64  `json:"rows"`
}

// ConfigEndpoint names a Prometheus endpoint and how its metrics map to ours.
type ConfigEndpoint struct {
	Engine string `json:"engine"`
	Addr   string `json:"addr,omitempty"`
	Port   int    `json:"port"`
	Path   string `json:"path"` // default /metrics
	// Metrics maps our figure names (running, queued, gen_tokens_total, kv_usage …) to metric names.
	Metrics map[string]string `json:"metrics,omitempty"`
}

// Guard is a rule of the data's owner about a flag.
type Guard struct {
	Flag  string   `json:"flag"`            // without dashes, e.g. kv-cache-dtype
	Allow []string `json:"allow,omitempty"` // patterns or ranges; empty: all that is not denied
	Deny  []string `json:"deny,omitempty"`
	Why   string   `json:"why"`
	// Overridable guards ask for a reason; others stop the restart.
	Overridable bool   `json:"overridable,omitempty"`
	From        string `json:"from,omitempty"` // config or node
}
