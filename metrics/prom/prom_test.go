package prom

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

type fieldCase struct {
	id, kind, expect string
	data             []byte
}

func readCases(t testing.TB, kinds ...string) []fieldCase {
	t.Helper()
	index, err := os.ReadFile("../../testdata/cases/INDEX.tsv")
	if err != nil {
		t.Fatal(err)
	}
	var out []fieldCase
	for line := range strings.Lines(string(index)) {
		f := strings.Split(line, "\t")
		if len(f) < 6 || !slices.Contains(kinds, f[4]) {
			continue
		}
		names, _ := filepath.Glob("../../testdata/cases/" + f[0] + "-*")
		data, err := os.ReadFile(names[0])
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fieldCase{f[0], f[4], f[5], data})
	}
	if len(out) == 0 {
		t.Fatal("no cases")
	}
	return out
}

func show(n Num) string {
	if !n.OK {
		return "unknown"
	}
	return strconv.FormatFloat(n.V, 'g', -1, 64)
}

func expected(expect string) map[string]string {
	out := map[string]string{}
	expect, _, _ = strings.Cut(expect, " -> ")
	for w := range strings.FieldsSeq(expect) {
		if k, v, ok := strings.Cut(w, "="); ok {
			out[strings.TrimSuffix(k, ":")] = v
		}
	}
	return out
}

func same(got, want string) bool {
	a, err1 := strconv.ParseFloat(got, 64)
	b, err2 := strconv.ParseFloat(want, 64)
	if err1 == nil && err2 == nil {
		return math.Abs(a-b) <= 1e-12*math.Abs(b)
	}
	return got == want
}

func TestMetricsCases(t *testing.T) {
	for _, c := range readCases(t, "metrics") {
		v, ok := Read(c.data)
		if !ok {
			t.Errorf("%s: engine not recognised", c.id)
			continue
		}
		pct := v.CacheHit
		pct.V *= 100
		have := map[string]string{
			"running": show(v.Running), "waiting": show(v.Queued), "queue": show(v.Queued), "gen_tps": show(v.GenGauge),
			"usage": show(v.KVUsage), "kv": show(v.KVUsage), "cache_hit_pct": show(pct), "used_tokens": show(v.UsedTokens),
			"requests_total": show(v.Requests), "aborted_total": show(v.Aborted),
			"prefix_queries": show(v.PrefixQueries), "prefix_hits": show(v.PrefixHits),
		}
		for k, want := range expected(c.expect) {
			got, known := have[k]
			if !known {
				t.Errorf("%s: no extractor for %q", c.id, k)
			} else if !same(got, want) {
				t.Errorf("%s: %s = %s, want %s", c.id, k, got, want)
			}
		}
	}
}

func TestJSONCases(t *testing.T) {
	for _, c := range readCases(t, "json") {
		i, err := ParseInfo(c.data)
		if err != nil {
			t.Errorf("%s: %v", c.id, err)
			continue
		}
		have := map[string]string{"model": i.Model, "chunked_prefill": show(i.Chunked), "mem_fraction": show(i.MemFrac), "capacity": show(i.Capacity)}
		for k, want := range expected(c.expect) {
			if want == "null" {
				want = "unknown"
			}
			if got, known := have[k]; !known || !same(got, want) {
				t.Errorf("%s: %s = %q (known %v), want %s", c.id, k, got, known, want)
			}
		}
	}
}

func TestParseLenient(t *testing.T) {
	s := Parse([]byte("# HELP a text\n# TYPE a gauge\na 1\r\na{l=\"x\\\"y\\\\z\\nw\"} 2 1700000000\n"+
		"b{l=\"x\",} +Inf\nbroken{l=x} 3\nbroken2 \n3bad 4\nc{l=\"é\"} 5.5e-06 # {trace=\"t\"} 1\n{\"d.name\", \"q l\"=\"v\"} 7\n"+
		"h_bucket{le=\"1\"} 9\nh_count 3\ne NaN\n# EOF\nf 0x10\ng 1_000\nlast 8"), nil)
	if s.Bad != 5 || !s.Torn || !strings.HasPrefix(s.FirstBad, "broken{") {
		t.Errorf("bad %d torn %v first %q", s.Bad, s.Torn, s.FirstBad)
	}
	if a := s.Get("a"); len(a) != 2 || a[1].Get("l") != "x\"y\\z\nw" || a[1].Value != 2 {
		t.Errorf("a: %+v", a)
	}
	if d := s.Get("d.name"); len(d) != 1 || d[0].Get("q l") != "v" || d[0].Value != 7 {
		t.Errorf("d: %+v", d)
	}
	if len(s.Get("h_bucket")) != 0 || s.Get("h_count")[0].Value != 3 || s.Get("c")[0].Value != 5.5e-06 || s.Get("last")[0].Value != 8 {
		t.Errorf("%+v", s)
	}
	if n := s.sum("e", "b"); n.OK {
		t.Errorf("NaN or Inf became a figure: %+v", n)
	}
}

// sglang08 has eight data parallel ranks of one tensor parallel group each, all
// reporting twice (two tensor ranks), over two pipeline stages.
func sglang08() string {
	var b strings.Builder
	b.WriteString("# TYPE sglang:num_running_reqs gauge\n")
	for dp := range 8 {
		for tp := range 2 {
			for pp := range 2 {
				l := fmt.Sprintf(`{dp_rank="%d",engine_type="unified",model_name="m",moe_ep_rank="%d",pp_rank="%d",tp_rank="%d"}`, dp, tp, pp, dp*2+tp)
				fmt.Fprintf(&b, "sglang:num_running_reqs%s %d.0\n", l, dp+1)
				fmt.Fprintf(&b, "sglang:token_usage%s 0.%d\n", l, dp+1)
				fmt.Fprintf(&b, "sglang:gen_throughput%s 100.5\n", l)
				fmt.Fprintf(&b, "sglang:max_total_num_tokens%s 1000.0\n", l)
				fmt.Fprintf(&b, "sglang:realtime_tokens_total{dp_rank=\"%d\",mode=\"decode\",pp_rank=\"%d\",tp_rank=\"%d\"} 5000.0\n", dp, pp, dp*2+tp)
				fmt.Fprintf(&b, "sglang:realtime_tokens_total{dp_rank=\"%d\",mode=\"prefill_compute\",pp_rank=\"%d\",tp_rank=\"%d\"} 9.0\n", dp, pp, dp*2+tp)
			}
		}
	}
	b.WriteString(`sglang:cached_tokens_total{cache_source="device",model_name="m"} 30.0
sglang:cached_tokens_total{cache_source="host",model_name="m"} 10.0
sglang:cached_tokens_total{cache_source="total",model_name="m"} 40.0
sglang:prompt_tokens_total{is_streaming="true",model_name="m"} 60.0
sglang:prompt_tokens_total{is_streaming="false",model_name="m"} 40.0
sglang:cache_hit_rate{model_name="m"} 0.0
sglang:utilization{model_name="m"} 0.0
sglang:num_queue_reqs{model_name="m",priority=""} 5.0
sglang:num_queue_reqs{model_name="m",priority="1"} 3.0
sglang:num_queue_reqs{model_name="m",priority="2"} 2.0
`)
	return b.String()
}

func TestSumOverDataParallelOnly(t *testing.T) {
	v, ok := Read([]byte(sglang08()))
	if !ok || v.Running.V != 36 || v.GenGauge.V != 804 || v.Capacity.V != 8000 || v.KVUsage.V != 0.8 || len(v.RankUsage) != 8 ||
		v.DecodeTokens.V != 40000 || v.CachedTokens.V != 40 || v.CacheHit.V != 0.4 || v.Queued.V != 5 || v.Model != "m" {
		t.Errorf("%+v", v)
	}
}

func TestCacheHitZeroGaugeIsUnknown(t *testing.T) {
	v, _ := Read([]byte("sglang:cache_hit_rate{model_name=\"m\"} 0.0\nsglang:gen_throughput{model_name=\"m\"} 5.0\nsglang:num_running_reqs{model_name=\"m\"} 0.0\n"))
	if v.CacheHit.OK {
		t.Error("the gauge that decode reports reset became a hit rate of 0")
	}
	if !v.GenStale || !v.Running.OK {
		t.Errorf("a rate with nothing running is not called stale: %+v", v)
	}
	if v.Queued.OK || v.KVUsage.OK || v.Requests.OK {
		t.Errorf("absent families became figures: %+v", v)
	}
}

func TestVLLMVersions(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		ok   func(v *View) bool
	}{
		"v0": {"vllm:num_requests_running{model_name=\"m\"} 2.0\nvllm:num_requests_waiting{model_name=\"m\"} 3.0\nvllm:gpu_cache_usage_perc{model_name=\"m\"} 0.5\nvllm:cpu_cache_usage_perc{model_name=\"m\"} 0.1\nvllm:avg_generation_throughput_toks_per_s{model_name=\"m\"} 41.5\nvllm:gpu_prefix_cache_hit_rate{model_name=\"m\"} 0.25\n",
			func(v *View) bool {
				return v.Running.V == 2 && v.Queued.V == 3 && v.KVUsage.V == 0.5 && v.GenGauge.V == 41.5 && v.CacheHit.V == 0.25
			}},
		"v0 on a cpu": {"vllm:num_requests_running 1\nvllm:gpu_cache_usage_perc 0\nvllm:cpu_cache_usage_perc 0.002\n",
			func(v *View) bool { return v.KVUsage.V == 0.002 }},
		"both names": {"vllm:num_requests_running{engine=\"0\"} 1\nvllm:num_requests_running{engine=\"1\"} 2\nvllm:gpu_cache_usage_perc{engine=\"0\"} 0.2\nvllm:kv_cache_usage_perc{engine=\"0\"} 0.2\nvllm:kv_cache_usage_perc{engine=\"1\"} 0.4\nvllm:cache_config_info{block_size=\"16\",engine=\"0\",num_gpu_blocks=\"100\"} 1.0\nvllm:cache_config_info{block_size=\"16\",engine=\"1\",num_gpu_blocks=\"100\"} 1.0\n",
			func(v *View) bool {
				return v.Running.V == 3 && v.KVUsage.V == 0.4 && len(v.RankUsage) == 2 && v.Capacity.V == 3200 && math.Abs(v.UsedTokens.V-960) < 1e-6
			}},
		"newest": {"vllm:cache_config_info{block_size=\"16\",engine=\"0\",kv_cache_size_tokens=\"643232\",kv_cache_max_concurrency=\"15.7\",num_gpu_blocks=\"40202\"} 1.0\nvllm:num_preemptions_total{engine=\"0\"} 4.0\nvllm:num_preemptions_created{engine=\"0\"} 1.75e+09\nvllm:request_success_total{engine=\"0\",finished_reason=\"stop\"} 8.0\nvllm:request_success_total{engine=\"0\",finished_reason=\"length\"} 2.0\nvllm:request_success_total{engine=\"0\",finished_reason=\"abort\"} 1.0\nvllm:iteration_tokens_total_count{engine=\"0\"} 77.0\nvllm:iteration_tokens_total_sum{engine=\"0\"} 999.0\nvllm:generation_tokens_total{engine=\"0\"} 500.0\nvllm:spec_decode_num_drafts_total 10\nvllm:spec_decode_num_draft_tokens_total 30\nvllm:spec_decode_num_accepted_tokens_total 24\n",
			func(v *View) bool {
				return v.Capacity.V == 643232 && v.FitFull.V == 15.7 && v.Retracted.V == 4 && v.Requests.V == 11 && v.Aborted.V == 1 &&
					v.FinishedBy["length"] == 2 && v.Steps.V == 77 && v.GenTokens.V == 500 && v.AcceptLen.V == 3.4 && v.AcceptRate.V == 0.8
			}},
	} {
		v, ok := Read([]byte(c.text))
		if !ok || v.Engine != "vllm" || !c.ok(&v) {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

func TestBetween(t *testing.T) {
	scrape := func(gen, req float64) View {
		v, _ := Read(fmt.Appendf(nil, "vllm:generation_tokens_total %v\nvllm:request_success_total{finished_reason=\"stop\"} %v\nvllm:iteration_tokens_total_count %v\n", gen, req, gen))
		return v
	}
	a, b := scrape(1000, 5), scrape(7060, 7)
	if r := b.Between(&a, 10*time.Second); r.Gen.V != 606 || r.Finished.V != 0.2 || !r.Moved || r.Input.OK {
		t.Errorf("%+v", r)
	}
	if r := a.Between(&b, 10*time.Second); r.Gen.OK || r.Moved {
		t.Errorf("a counter that fell gave a rate: %+v", r)
	}
	if r := a.Between(&a, 10*time.Second); !r.Gen.OK || r.Gen.V != 0 || r.Moved {
		t.Errorf("standing still: %+v", r)
	}
}

func TestCustom(t *testing.T) {
	body := []byte("llamacpp:requests_processing 2\nllamacpp:requests_deferred 1\ntgi_x{method=\"decode\"} 5\ntgi_x{method=\"prefill\"} 9\nusage 43.5\n")
	v, unknown := Custom(body, "llama.cpp", map[string]string{"running": "llamacpp:requests_processing", "queued": "llamacpp:requests_deferred",
		"steps_total": `tgi_x{method="decode"}`, "kv_usage": "usage", "gen_tokens_total": "absent", "nonsense": "x"})
	if v.Engine != "llama.cpp" || v.Running.V != 2 || v.Queued.V != 1 || v.Steps.V != 5 || v.KVUsage.V != 0.435 || v.GenTokens.OK || !slices.Equal(unknown, []string{"nonsense"}) {
		t.Errorf("%+v %v", v, unknown)
	}
	if len(Figures()) != len(figures) {
		t.Error("Figures")
	}
}

func TestLoads(t *testing.T) {
	item := func(dp int, gen float64) string {
		return fmt.Sprintf(`{"dp_rank":%d,"num_running_reqs":35,"num_waiting_reqs":115,"num_used_tokens":154912,"max_total_num_tokens":159277,"max_running_requests":2048,"token_usage":0.97,"gen_throughput":%v,"cache_hit_rate":0.0,"utilization":0.0,"memory":{"weight_gb":70.5,"kv_cache_gb":10.4}}`, dp, gen)
	}
	for name, c := range map[string]struct {
		body    string
		running float64
		gen     Num
	}{
		"aggregate":  {`{"timestamp":"t","version":"0.5.9","dp_rank_count":2,"loads":[` + item(0, 0) + "," + item(1, 0) + `],"aggregate":{"total_running_reqs":70,"avg_throughput":0}}`, 70, Num{}},
		"new":        {`{"timestamp":1,"version":"0.5.13","loads":[` + item(0, 606.5) + `]}`, 35, Num{606.5, true}},
		"two snaps":  {`{"version":"x","loads":[` + item(0, 1) + "," + item(0, 2) + `]}`, 35, Num{2, true}},
		"bare list":  {`[{"dp_rank":0,"num_reqs":150,"num_waiting_reqs":115,"num_tokens":1000}]`, 35, Num{}},
		"one object": {item(0, 5), 35, Num{5, true}},
		"NaN":        {`{"loads":[{"dp_rank":0,"num_running_reqs":35,"token_usage":NaN}]}`, 35, Num{}},
	} {
		l, err := ParseLoads([]byte(c.body))
		if err != nil || l.Running.V != c.running || l.GenGauge != c.gen {
			t.Errorf("%s: %+v %v", name, l, err)
		}
	}
	if l, _ := ParseLoads([]byte(`{"loads":[` + item(0, 0) + "," + item(1, 0) + `]}`)); l.Capacity.V != 2*159277 || l.KVUsage.V != 0.97 || l.MaxRunning.V != 4096 || l.WeightGiB.V != 70.5 {
		t.Errorf("%+v", l)
	}
	for _, bad := range []string{"", "<html>", `{"detail":"Not Found"}`} {
		if _, err := ParseLoads([]byte(bad)); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func TestInfo(t *testing.T) {
	flat := `{"model_path":"/m/K2.5","served_model_name":"k","tp_size":8,"dp_size":1,"pp_size":1,"mem_fraction_static":0.88,"kv_cache_dtype":"auto","chunked_prefill_size":8192,
"api_key":"sk-secret-secret","admin_api_key":"hunter2hunter2","hf_token":"x","extra":"hunter2","enable_metrics":false,"max_total_num_tokens":159277,"version":"0.5.9","status":"ready",
"internal_states":[{"effective_max_running_requests_per_dp":2048,"last_gen_throughput":606.1,"api_key":"sk-secret","memory_usage":{"weight":72.33,"kvcache":10.4,"token_capacity":159277,"graph":{"decode":1.5,"prefill":0.5}},"avg_spec_accept_length":2.5}]}`
	i, err := ParseInfo([]byte(flat))
	if err != nil || i.Model != "/m/K2.5" || i.TP.V != 8 || i.MemFrac.V != 0.88 || i.Capacity.V != 159277 || i.MaxRunning.V != 2048 || i.Version != "0.5.9" ||
		i.GraphGiB.V != 2 || i.WeightGiB.V != 72.33 || i.AcceptLen.V != 2.5 || i.Args["enable_metrics"] != "false" || i.Args["chunked_prefill_size"] != "8192" {
		t.Errorf("%+v %v", i, err)
	}
	if s := fmt.Sprintf("%+v", i); strings.Contains(s, "secret") || strings.Contains(s, "hunter2") {
		t.Errorf("a secret was kept: %s", s)
	}
	i, err = ParseInfo([]byte(`{"object":"list","data":[{"id":"lora","parent":"base","root":"/l"},{"id":"served","root":"/m/base","parent":null,"max_model_len":40960}]}`))
	if err != nil || i.Model != "/m/base" || i.Served != "served" || i.ContextLen.V != 40960 {
		t.Errorf("%+v %v", i, err)
	}
	i, err = ParseInfo([]byte(`{"vllm_config":"model='m', speculative_config=None, max_seq_len=40960, tensor_parallel_size=2, kv_cache_dtype=auto","vllm_env":{"VLLM_API_KEY":"sk-secret"}}`))
	if err != nil || i.Model != "m" || i.ContextLen.V != 40960 || i.TP.V != 2 || i.KVDtype != "auto" || strings.Contains(fmt.Sprint(i), "secret") {
		t.Errorf("%+v %v", i, err)
	}
	i, _ = ParseInfo([]byte(`{"vllm_config":{"model_config":{"model":"m","max_model_len":8},"cache_config":{"num_gpu_blocks":10,"block_size":16},"parallel_config":{"tensor_parallel_size":4}}}`))
	if i.Model != "m" || i.Capacity.V != 160 || i.TP.V != 4 || i.Empty() {
		t.Errorf("%+v", i)
	}
	if i, _ = ParseInfo([]byte(`{"some":"thing"}`)); !i.Empty() {
		t.Errorf("%+v", i)
	}
	if v, err := ParseVersion([]byte(`{"version":"0.28.0"}`)); v != "0.28.0" || err != nil {
		t.Error(v, err)
	}
	if _, err := ParseVersion([]byte(`{"detail":"x"}`)); err == nil || !strings.Contains(err.Error(), "detail") {
		t.Error(err)
	}
	if n, err := ParseServerLoad([]byte(`{"server_load":0}`)); n.OK || err != nil {
		t.Errorf("an untracked load became 0: %+v %v", n, err)
	}
}

func FuzzRead(f *testing.F) {
	for _, c := range readCases(f, "metrics", "json") {
		f.Add(c.data)
	}
	f.Add([]byte(sglang08()[:600]))
	f.Add([]byte("{\"d.name\", \"q l\"=\"v\"} 7\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, _ := Read(b)
		w := v
		v.Between(&w, time.Second)
		for _, s := range append(v.Silent, v.Model) {
			if s != metrics.Clean(s, 0) {
				t.Fatalf("dirty %q", s)
			}
		}
		for _, get := range figures {
			if n := get(&v); !n.OK && n.V != 0 || math.IsNaN(n.V) {
				t.Fatalf("an unknown figure with a value: %+v", *n)
			}
		}
		Custom(b, "x", map[string]string{"running": "a", "kv_usage": `b{c="d"}`})
		_, _ = ParseLoads(b)
		i, _ := ParseInfo(b)
		for k, s := range i.Args {
			if k != metrics.Clean(k, 0) || s != metrics.Clean(s, 0) {
				t.Fatalf("dirty %q %q", k, s)
			}
		}
	})
}

// bigScrape is a scrape of the usual size: 40 families of which 10 histograms.
func bigScrape() []byte {
	var b bytes.Buffer
	for i := range 30 {
		fmt.Fprintf(&b, "# HELP sglang:f%d Some text.\n# TYPE sglang:f%d gauge\n", i, i)
		for dp := range 8 {
			fmt.Fprintf(&b, "sglang:f%d{dp_rank=\"%d\",engine_type=\"unified\",model_name=\"moonshotai/Kimi-K2.5\",pp_rank=\"0\",tp_rank=\"%d\"} 12.5\n", i, dp, dp)
		}
	}
	for i := range 10 {
		fmt.Fprintf(&b, "# HELP sglang:h%d Some text.\n# TYPE sglang:h%d histogram\n", i, i)
		for le := range 40 {
			fmt.Fprintf(&b, "sglang:h%d_bucket{le=\"%d.0\",model_name=\"moonshotai/Kimi-K2.5\"} 12.0\n", i, le)
		}
		fmt.Fprintf(&b, "sglang:h%d_bucket{le=\"+Inf\",model_name=\"moonshotai/Kimi-K2.5\"} 12.0\n", i)
		fmt.Fprintf(&b, "sglang:h%d_sum{model_name=\"moonshotai/Kimi-K2.5\"} 12.0\nsglang:h%d_count{model_name=\"moonshotai/Kimi-K2.5\"} 12.0\n", i, i)
	}
	return b.Bytes()
}

func BenchmarkRead(b *testing.B) {
	data := bigScrape()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		Read(data)
	}
}
