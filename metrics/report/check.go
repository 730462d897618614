// Package report turns a snapshot into text for programs and people who do not
// sit before the live screen: one JSON object, a few lines, or one line.
package report

import (
	"encoding/json"
	"math"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// Schema is the version of the JSON object, described by docs/check.schema.json.
const Schema = 1

// Verdicts of a node, from best to worst, as Check.Verdict says them.
const (
	Healthy     = "healthy"
	Warning     = "warning"
	Critical    = "critical"
	Unreachable = "unreachable"
	Nothing     = "nothing-found"
)

// Check is the JSON object of `runvigil check --json`. Every key is always
// there; what is not known is null, never 0.
type Check struct {
	Schema     int       `json:"schema"`
	Node       string    `json:"node"`
	At         time.Time `json:"at"`
	AgeS       float64   `json:"age_s"` // of the snapshot: 0 unless it was left by a live screen
	Verdict    string    `json:"verdict"`
	Summary    string    `json:"summary"`
	CannotTell []string  `json:"cannot_tell"`
	Server     *Server   `json:"server"`
	Servers    []Server  `json:"servers"`
	GPUs       []GPU     `json:"gpus"`
	Clients    []Client  `json:"clients"`
	Datasets   []Dataset `json:"datasets"`
	Job        Job       `json:"job"`
	Host       Host      `json:"host"`
	Findings   []Finding `json:"findings"`
}

// Server is one inference server. Rates in tok/s, sizes in tokens unless named otherwise.
type Server struct {
	Engine           *string    `json:"engine"`
	Version          *string    `json:"version"`
	Model            *string    `json:"model"`
	PID              *int       `json:"pid"`
	Started          *time.Time `json:"started"`
	Port             *int       `json:"port"`
	State            string     `json:"state"`
	Phase            *string    `json:"phase"`
	UptimeS          *float64   `json:"uptime_s"`
	TP               *int       `json:"tp"`
	DP               *int       `json:"dp"`
	GenTPS           GenTPS     `json:"gen_tps"`
	InputTPS         *float64   `json:"input_tps"`
	Running          *float64   `json:"running"`
	Queued           *float64   `json:"queued"`
	InFlight         *float64   `json:"in_flight"`
	KVUsage          *float64   `json:"kv_usage"`
	KVTokens         *float64   `json:"kv_tokens"`
	TokensPerRequest *float64   `json:"tokens_per_request"`
	RequestsFit      *float64   `json:"requests_fit"`
	CapacityTokens   *float64   `json:"capacity_tokens"`
	MaxRunning       *float64   `json:"max_running_requests"`
	ContextLen       *float64   `json:"context_len"`
	HeadroomGiB      *float64   `json:"headroom_gib"`
	Graph            *bool      `json:"graph"`
	AcceptLen        *float64   `json:"accept_len"`
	CacheHit         *float64   `json:"cache_hit"`
	Finished         *float64   `json:"finished"`
	Argv             []string   `json:"argv"`
}

// GenTPS is generation throughput in tok/s.
type GenTPS struct {
	Now     *float64   `json:"now"`
	Settled *float64   `json:"settled"`
	Spread  *float64   `json:"spread"`
	Peak    *float64   `json:"peak"`
	Since   *time.Time `json:"since"`
}

// GPU is one device.
type GPU struct {
	Index       int       `json:"index"`
	Name        *string   `json:"name"`
	MemoryUsed  *float64  `json:"memory_used_mib"`
	MemoryTotal *float64  `json:"memory_total_mib"`
	Util        *float64  `json:"util_pct"`
	Temp        *float64  `json:"temp_c"`
	Power       *float64  `json:"power_w"`
	PowerLimit  *float64  `json:"power_limit_w"`
	Lost        *string   `json:"lost"` // what the tool says instead of figures
	Processes   []GPUProc `json:"processes"`
}

// GPUProc is a process that holds GPU memory.
type GPUProc struct {
	PID       int      `json:"pid"`
	Name      *string  `json:"name"`
	MemoryMiB *float64 `json:"memory_mib"`
	Owner     *string  `json:"owner"`
}

// Client is a process that sends requests and writes rows.
type Client struct {
	PID      *int       `json:"pid"`
	Host     *string    `json:"host"` // of a client elsewhere
	Argv     []string   `json:"argv"`
	Started  *time.Time `json:"started"`
	State    string     `json:"state"`
	Log      Log        `json:"log"`
	Datasets []string   `json:"datasets"`
}

// Log is a followed log.
type Log struct {
	Path  *string  `json:"path"`
	Bytes *float64 `json:"bytes"`
	Lines *float64 `json:"lines"`
	AgeS  *float64 `json:"age_s"`
}

// Dataset is a file of rows, or its shards.
type Dataset struct {
	Path           string   `json:"path"`
	Rows           *float64 `json:"rows"`
	RowsPerMin     *float64 `json:"rows_per_min"`
	Bytes          *float64 `json:"bytes"`
	AgeS           *float64 `json:"age_s"` // since it last grew
	Target         *int64   `json:"target"`
	TargetInferred *bool    `json:"target_inferred"`
	ETAS           *float64 `json:"eta_s"`
	TornTail       *bool    `json:"torn_tail"`
	Landed         *float64 `json:"landed"` // rows since the running client's start
	Shards         int      `json:"shards"`
}

// Job is all datasets together.
type Job struct {
	Rows       *float64 `json:"rows"`
	Target     *int64   `json:"target"`
	RowsPerMin *float64 `json:"rows_per_min"`
	ETAS       *float64 `json:"eta_s"`
}

// Host is the machine; sizes in GiB.
type Host struct {
	Load1    *float64 `json:"load1"`
	MemAvail *float64 `json:"mem_available_gib"`
	MemTotal *float64 `json:"mem_total_gib"`
	// MemLimit names the limit below which memory is counted, null for the node's own memory.
	MemLimit *string `json:"mem_limit"`
	Disks    []Disk  `json:"disks"`
}

// Disk is one file system in use.
type Disk struct {
	Mount    string   `json:"mount"`
	AvailGiB *float64 `json:"avail_gib"`
	TotalGiB *float64 `json:"total_gib"`
}

// Finding is a diagnosis.
type Finding struct {
	ID       string     `json:"id"`
	Severity string     `json:"severity"`
	Subject  string     `json:"subject"`
	Since    time.Time  `json:"since"`
	Title    string     `json:"title"`
	Cause    *string    `json:"cause"`
	Why      *string    `json:"why"`
	Evidence []Evidence `json:"evidence"`
	Advice   string     `json:"advice"`
	Acked    bool       `json:"acknowledged"`
}

// Evidence is one figure that a finding rests on.
type Evidence struct {
	Text   string     `json:"text"`
	Source string     `json:"source"`
	At     *time.Time `json:"at"`
}

// JSON writes the snapshot as one indented object with a final newline.
func JSON(s *metrics.Snapshot) ([]byte, error) { return Marshal(NewCheck(s)) }

// Marshal writes a Check as JSON does.
func Marshal(c Check) ([]byte, error) {
	out, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(out, '\n'), nil
}

// NewCheck builds the JSON object of a snapshot.
func NewCheck(s *metrics.Snapshot) Check {
	c := Check{
		Schema: Schema, Node: s.Node, At: s.At.UTC(),
		Verdict: Level(s), Summary: s.Verdict.Text,
		CannotTell: []string{}, Servers: []Server{}, GPUs: []GPU{}, Clients: []Client{}, Datasets: []Dataset{}, Findings: []Finding{},
		Job: Job{
			Rows: num(s.Job.Rows), Target: target(s.Job.Target), RowsPerMin: round(num(s.Job.PerMin), 2), ETAS: eta(s.Job.ETA, s.At),
		},
		Host: Host{
			Load1: num(s.Sys.Load1), MemAvail: gib(s.Sys.MemAvail), MemTotal: gib(s.Sys.MemTotal), MemLimit: str(s.Sys.MemLimit), Disks: []Disk{},
		},
	}
	for _, t := range s.CannotTell {
		c.CannotTell = append(c.CannotTell, CannotTellText(t))
	}
	for i := range s.Servers {
		c.Servers = append(c.Servers, server(&s.Servers[i], s.At))
	}
	if len(c.Servers) > 0 {
		c.Server = &c.Servers[0]
	}
	for i := range s.GPUs {
		c.GPUs = append(c.GPUs, gpu(&s.GPUs[i]))
	}
	for i := range s.Clients {
		c.Clients = append(c.Clients, client(&s.Clients[i], s.At))
	}
	for i := range s.Datasets {
		c.Datasets = append(c.Datasets, dataset(&s.Datasets[i], s.At))
	}
	for _, d := range s.Sys.Disks {
		c.Host.Disks = append(c.Host.Disks, Disk{Mount: d.Mount, AvailGiB: gib(d.Avail), TotalGiB: gib(d.Total)})
	}
	for _, f := range s.Findings {
		c.Findings = append(c.Findings, finding(f))
	}
	return c
}

// atWork is a server without the figures of its work where it does none any more:
// what was last known of them is no present.
func atWork(v *metrics.Server) *metrics.Server {
	if v.State != metrics.ServerDown {
		return v
	}
	c := *v
	for _, f := range []*metrics.Figure{&c.Gen.Now, &c.InputTPS, &c.Running, &c.Queued, &c.InFlight, &c.KVUsage, &c.KVTokens, &c.PerRequest, &c.RequestsFit, &c.AcceptLen, &c.CacheHit} {
		*f = metrics.Figure{}
	}
	c.Graph = nil
	return &c
}

func server(v *metrics.Server, now time.Time) Server {
	v = atWork(v)
	out := Server{
		Engine: str(v.Engine), Version: str(v.Version), Model: str(v.Model),
		PID: pos(v.PID), Started: when(v.Started), Port: pos(v.Port), State: string(v.State), Phase: str(v.Phase.Name),
		TP: pos(v.TP), DP: pos(v.DP),
		GenTPS: GenTPS{
			Now: num(v.Gen.Now), Settled: round(num(v.Gen.Settled), 1), Spread: round(num(v.Gen.Spread), 1),
			Peak: num(v.Gen.Peak), Since: when(v.Gen.Since),
		},
		InputTPS: num(v.InputTPS), Running: num(v.Running), Queued: num(v.Queued), InFlight: num(v.InFlight),
		KVUsage: num(v.KVUsage), KVTokens: num(v.KVTokens), TokensPerRequest: round(num(v.PerRequest), 1), RequestsFit: num(v.RequestsFit),
		CapacityTokens: num(v.Capacity), MaxRunning: num(v.MaxRunning), ContextLen: num(v.ContextLen), HeadroomGiB: num(v.Headroom),
		Graph: v.Graph, AcceptLen: num(v.AcceptLen), CacheHit: num(v.CacheHit), Finished: num(v.Finished),
		Argv: list(v.Argv),
	}
	if !v.Started.IsZero() && v.Ended.IsZero() {
		up := math.Round(now.Sub(v.Started).Seconds())
		out.UptimeS = &up
	}
	return out
}

func gpu(g *metrics.GPU) GPU {
	out := GPU{
		Index: g.Index, Name: str(g.Name), MemoryUsed: num(g.MemUsed), MemoryTotal: num(g.MemTotal), Util: num(g.Util),
		Temp: num(g.Temp), Power: num(g.Power), PowerLimit: num(g.PowerLimit), Lost: str(g.Lost), Processes: []GPUProc{},
	}
	for _, p := range g.Procs {
		out.Processes = append(out.Processes, GPUProc{PID: p.PID, Name: str(p.Name), MemoryMiB: num(p.MiB), Owner: str(p.Owner)})
	}
	return out
}

func client(c *metrics.Client, now time.Time) Client {
	return Client{
		PID: pos(c.PID), Host: str(c.Host), Argv: list(c.Argv), Started: when(c.Started), State: c.State,
		Log:      Log{Path: str(c.Log.Path), Bytes: num(c.Log.Bytes), Lines: num(c.Log.Lines), AgeS: age(c.Log.Mtime, now)},
		Datasets: list(c.Datasets),
	}
}

func dataset(d *metrics.Dataset, now time.Time) Dataset {
	out := Dataset{
		Path: d.Path, Rows: num(d.Rows), RowsPerMin: round(num(d.PerMin), 2), Bytes: num(d.Bytes), AgeS: age(d.Grew, now),
		Target: target(d.Target), ETAS: eta(d.ETA, now), Landed: num(d.Landed), Shards: len(d.Shards),
	}
	if d.Target.Rows > 0 {
		out.TargetInferred = &d.Target.Inferred
	}
	if d.Rows.Known {
		out.TornTail = &d.Torn
	}
	return out
}

func finding(f metrics.Finding) Finding {
	out := Finding{
		ID: f.ID, Severity: f.Severity.String(), Subject: f.Subject, Since: f.Since.UTC(), Title: f.Title,
		Cause: str(string(f.Cause)), Why: str(f.Why), Evidence: []Evidence{}, Advice: f.Advice, Acked: f.Acked,
	}
	for _, e := range f.Evidence {
		out.Evidence = append(out.Evidence, Evidence{Text: e.Text, Source: e.Source, At: when(e.At)})
	}
	return out
}

// CannotTellText is an entry of cannot_tell as one line.
func CannotTellText(t metrics.CannotTell) string {
	out := t.What
	if t.Why != "" {
		out += ": " + t.Why
	}
	if t.Tell != "" {
		out += " (would tell: " + t.Tell + ")"
	}
	return out
}

func num(f metrics.Figure) *float64 {
	if !f.Known || math.IsNaN(f.V) || math.IsInf(f.V, 0) {
		return nil
	}
	return &f.V
}

func round(v *float64, digits int) *float64 {
	if v == nil {
		return nil
	}
	p := math.Pow10(digits)
	r := math.Round(*v*p) / p
	return &r
}

func gib(f metrics.Figure) *float64 {
	v := num(f)
	if v == nil {
		return nil
	}
	g := *v / (1 << 30)
	return round(&g, 2)
}

func str(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func pos(n int) *int {
	if n <= 0 {
		return nil
	}
	return &n
}

func when(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

func age(t, now time.Time) *float64 {
	if t.IsZero() {
		return nil
	}
	a := max(0, math.Round(now.Sub(t).Seconds()))
	return &a
}

func target(t metrics.Target) *int64 {
	if t.Rows <= 0 {
		return nil
	}
	return &t.Rows
}

func eta(e metrics.ETA, now time.Time) *float64 {
	if !e.Known {
		return nil
	}
	s := max(0, math.Round(e.At.Sub(now).Seconds()))
	return &s
}

func list(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}
