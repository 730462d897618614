package report

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/runvigil/runvigil/metrics"
)

var update = flag.Bool("update", false, "rewrite docs/check.schema.json")

const schemaPath = "../../docs/check.schema.json"

// schemaOf describes a Go type as JSON schema: every field is required, and a
// pointer may be null.
func schemaOf(t reflect.Type) map[string]any {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case t.Kind() == reflect.Pointer:
		return map[string]any{"anyOf": []any{schemaOf(t.Elem()), map[string]any{"type": "null"}}}
	case t.Kind() == reflect.Slice:
		return map[string]any{"type": "array", "items": schemaOf(t.Elem())}
	case t.Kind() == reflect.Struct:
		props, required := map[string]any{}, []any{}
		for i := range t.NumField() {
			name := t.Field(i).Tag.Get("json")
			props[name] = schemaOf(t.Field(i).Type)
			required = append(required, name)
		}
		return map[string]any{"type": "object", "properties": props, "required": required, "additionalProperties": false}
	case t.Kind() == reflect.String:
		return map[string]any{"type": "string"}
	case t.Kind() == reflect.Bool:
		return map[string]any{"type": "boolean"}
	case t.Kind() == reflect.Float64:
		return map[string]any{"type": "number"}
	}
	return map[string]any{"type": "integer"}
}

func schema(t *testing.T) []byte {
	t.Helper()
	s := schemaOf(reflect.TypeFor[Check]())
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "runvigil check --json"
	s["description"] = "One node at one moment. Every key is always there; null means unknown, 0 means measured zero. " +
		"tok/s in *_tps, MiB and GiB are powers of two, *_s are seconds, kv_usage and cache_hit are shares of 1."
	props := s["properties"].(map[string]any)
	props["schema"] = map[string]any{"const": Schema}
	props["verdict"] = map[string]any{"enum": []any{Healthy, Warning, Critical, Unreachable, Nothing}}
	out, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(out, '\n')
}

func TestSchemaDocumentIsCurrent(t *testing.T) {
	want := schema(t)
	if *update {
		if err := os.WriteFile(schemaPath, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(schemaPath)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("docs/check.schema.json is stale: run `go test ./metrics/report -update`")
	}
}

// Validate checks a JSON document against the schema in docs/.
func validate(t *testing.T, doc []byte) error {
	t.Helper()
	c := jsonschema.NewCompiler()
	sch, err := c.Compile(schemaPath)
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(doc))
	if err != nil {
		t.Fatal(err)
	}
	return sch.Validate(v)
}

var now = time.Date(2026, 2, 24, 12, 16, 7, 0, time.UTC)

func story() *metrics.Snapshot {
	fig := func(v float64) metrics.Figure { return metrics.Known(v, now, time.Second, "log") }
	graph := true
	return &metrics.Snapshot{
		Node: "gpu7", At: now, Zone: "CET", ZoneSec: 3600,
		Link:    metrics.Link{Status: metrics.LinkUp},
		Verdict: metrics.Verdict{Word: "OK", Text: "rows land; 606 tok/s is settled"},
		Servers: []metrics.Server{{
			Engine: "sglang", Version: "0.5.9", Model: "Kimi-K2.5", PID: 4711, Started: now.Add(-21 * time.Minute), Port: 8000,
			State: metrics.ServerServing, TP: 8, Graph: &graph,
			Gen:     metrics.GenRate{Now: fig(606), Settled: fig(604.04), Spread: fig(21), Peak: fig(1317.32), Since: now.Add(-9 * time.Minute)},
			Running: fig(35), Queued: fig(115), InFlight: fig(150), KVUsage: fig(0.97), Capacity: fig(159277), Headroom: fig(5.47),
		}},
		GPUs:     []metrics.GPU{{Index: 0, Name: "RTX PRO 6000", MemUsed: fig(93388), MemTotal: fig(97887)}, {Index: 1, Lost: "GPU is lost"}},
		Clients:  []metrics.Client{{PID: 206570, State: "running", Log: metrics.LogRef{Path: "/data/logs/inference_all.log", Lines: fig(0)}}},
		Datasets: []metrics.Dataset{{Path: "/data/b2.jsonl", Rows: fig(1531), PerMin: fig(9.12345), Target: metrics.Target{Rows: 10000, Inferred: true}}},
		Job: metrics.Job{Rows: fig(11531), PerMin: fig(9.1), Target: metrics.Target{Rows: 88000},
			ETA: metrics.ETA{Known: true, At: now.Add(140 * time.Hour), Spread: 9 * time.Hour}, Finished: fig(157), Landed: fig(157)},
		Findings: []metrics.Finding{{ID: "client-log-silent", Severity: metrics.SeverityInfo, Since: now.Add(-19 * time.Minute), Title: "client log is empty",
			Cause: "client-buffered", Advice: "python -u", Evidence: []metrics.Evidence{{Text: "0 bytes", Source: "stat"}}}},
		CannotTell: []metrics.CannotTell{{What: "cache hits", Why: "metrics are off", Tell: "--enable-metrics"}},
	}
}

func TestJSONMatchesSchema(t *testing.T) {
	for name, s := range map[string]*metrics.Snapshot{"story": story(), "empty": {At: now}} {
		t.Run(name, func(t *testing.T) {
			doc, err := JSON(s)
			if err != nil {
				t.Fatal(err)
			}
			if err := validate(t, doc); err != nil {
				t.Errorf("%v\n%s", err, doc)
			}
		})
	}
}

func TestSchemaRefusesMissingKeys(t *testing.T) {
	doc, err := JSON(story())
	if err != nil {
		t.Fatal(err)
	}
	doc = bytes.Replace(doc, []byte(`"kv_usage"`), []byte(`"kv_use"`), 1)
	if validate(t, doc) == nil {
		t.Error("an object without kv_usage passed")
	}
}

func TestUnknownIsNull(t *testing.T) {
	doc, err := JSON(story())
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		Server  map[string]any
		Servers []map[string]any
		GPUs    []map[string]any
	}
	if err := json.Unmarshal(doc, &v); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"accept_len", "finished", "cache_hit", "dp"} {
		if got, ok := v.Server[key]; !ok || got != nil {
			t.Errorf("server.%s = %v, %v; want null", key, got, ok)
		}
	}
	if v.GPUs[1]["memory_used_mib"] != nil {
		t.Errorf("a lost GPU uses %v MiB, want null", v.GPUs[1]["memory_used_mib"])
	}
	if !reflect.DeepEqual(v.Server, v.Servers[0]) {
		t.Error("server is not the first of servers")
	}
}

func TestExitCode(t *testing.T) {
	with := func(sev metrics.Severity) *metrics.Snapshot {
		s := story()
		s.Findings[0].Severity = sev
		return s
	}
	down := with(metrics.SeverityCritical)
	down.Link.Status = metrics.LinkDown
	nothing := story()
	nothing.Servers, nothing.Clients = nil, nil
	replay := story()
	replay.Link, replay.Replay = metrics.Link{}, true
	cleared := with(metrics.SeverityCritical)
	cleared.Findings[0].Cleared = now
	for name, c := range map[string]struct {
		s    *metrics.Snapshot
		want int
	}{
		"info":    {with(metrics.SeverityInfo), 0},
		"warning": {with(metrics.SeverityWarning), 1},
		"crit":    {with(metrics.SeverityCritical), 2},
		"down":    {down, 3},
		"nothing": {nothing, 3},
		"replay":  {replay, 0},
		"cleared": {cleared, 0},
	} {
		if got := ExitCode(c.s); got != c.want {
			t.Errorf("%s: exit code %d, want %d", name, got, c.want)
		}
	}
}

func TestLineBeginsWithVerdict(t *testing.T) {
	if got, want := Line(story()), "OK 9.1/min 606 tok/s 35+115 ETA Mon 09:16\n"; got != want {
		t.Errorf("line %q, want %q", got, want)
	}
}

// What a server did last is no figure of the present.
func TestLineOfADeadServer(t *testing.T) {
	s := story()
	v := s.Server()
	v.State = metrics.ServerDown
	for _, f := range []*metrics.Figure{&v.Gen.Now, &v.Running, &v.Queued} {
		f.At, f.Every = s.At.Add(-5*time.Minute), 1
	}
	if got := Line(s); strings.Contains(got, "tok/s") || strings.Contains(got, "+") {
		t.Errorf("line %q", got)
	}
}

// The reason of a node that cannot be reached is not cut: what to do may stand
// at its end.
func TestLineTellsTheWholeReason(t *testing.T) {
	s := story()
	s.Link.Status, s.Link.Reason = metrics.LinkDown, "log in to root@gpu7: "+strings.Repeat("the key was refused, ", 12)+"\nUnlock the key for this login with: ssh-add /k"
	got := Line(s)
	if !strings.HasSuffix(got, "ssh-add /k\n") || strings.Count(got, "\n") != 1 {
		t.Errorf("line %q", got)
	}
}

func TestGlanceTellsTheStory(t *testing.T) {
	got := Glance(story())
	for _, want := range []string{"OK  rows land", "settled 604 ± 21.0 since 13:07", "35 running + 115 queued", "11,531 of 88,000", "157 requests finished, 157 rows landed",
		"1 lost", "→ python -u", "unknown  cache hits: metrics are off (would tell: --enable-metrics)"} {
		if !strings.Contains(got, want) {
			t.Errorf("glance lacks %q:\n%s", want, got)
		}
	}
}
