package sglang

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/runvigil/runvigil/metrics"
)

// events reads a log and lists its events, one short line each.
func events(log string) []string {
	var out []string
	var p Parser
	note := func(ev *Event) {
		s := fmt.Sprintf("%d %s %s ", ev.Line, ev.At, ev.Rank)
		switch ev.Kind {
		case KindBatch:
			b := ev.Batch
			s += fmt.Sprintf("batch decode=%v probe=%v run=%s queue=%s gen=%s tok=%s", b.Decode, b.Probe, show(b.Running), show(b.Queued), show(b.GenTPS), show(b.LiveTokens()))
		case KindStartup:
			s += fmt.Sprintf("step %d %s %d/%d", ev.Startup.Step, ev.Startup.Label, ev.Startup.Done, ev.Startup.Total)
		case KindAccess:
			s += fmt.Sprintf("access %s:%d %s %s %d", ev.Access.Client, ev.Access.Port, ev.Access.Method, ev.Access.Path, ev.Access.Status)
		case KindFault:
			s += fmt.Sprintf("fault %s %d %s", ev.Fault.Class, ev.Fault.Weight, ev.Fault.Phase)
		case KindRetraction:
			s += fmt.Sprintf("retract %s %s->%s", show(ev.Retract.Requests), show(ev.Retract.RatioFrom), show(ev.Retract.RatioTo))
		case KindStop:
			s += fmt.Sprintf("stop %s %s %v", ev.Stop.Signal, show(ev.Stop.Remaining), ev.Stop.Done)
		case KindSeparator:
			s += "separator " + ev.Separator
		default:
			s += fmt.Sprintf("kind %d", ev.Kind)
		}
		out = append(out, strings.Join(strings.Fields(s), " "))
	}
	p.Feed([]byte(log), note)
	p.Flush(note)
	return out
}

const story = "[2026-02-24 11:59:51 TP0] Decode batch, #running-req: 121, #token: 139222, token usage: 0.87, cuda graph: True, gen throughput (token/s): 1317.32, #queue-req: 29"

const storyEvent = "2026-02-24 11:59:51 TP0 batch decode=true probe=false run=121 queue=29 gen=1317.32 tok=139222"

func TestLines(t *testing.T) {
	for name, c := range map[string]struct {
		log  string
		want []string
	}{
		"plain":       {story, []string{"1 " + storyEvent}},
		"CR LF":       {story + "\r\n", []string{"1 " + storyEvent}},
		"NUL bytes":   {"\x00\x00" + story + "\n", []string{"1 " + storyEvent}},
		"glued bars":  {"\rLoading: 0/5 [00:00<?, ?it/s]\rCapturing batches (bs=8 avail_mem=5.81 GB):  50%|###  | 26/52 [00:04<00:04]" + story, []string{"1 step 12 26/52", "1 " + storyEvent}},
		"two records": {story + story + "\n", []string{"1 " + storyEvent, "1 " + storyEvent}},
		"record behind an access line": {
			"[2026-02-24 12:00:00] INFO:     127.0.0.1:1 - \"POST /generate?x=1 HTTP/1.1\" 200 OK" + story,
			[]string{"1 2026-02-24 12:00:00 access 127.0.0.1:1 POST /generate 200", "1 " + storyEvent},
		},
		"wrapped": {
			"[2026-02-24 11:59:51 TP0] Decode batch, #running-req: 121, #token: 13\n9222, token usage: 0.87, cuda graph: True, gen through\nput (token/s): 1317.32, #queue-req: 29\n",
			[]string{"1 " + storyEvent},
		},
		"wrapped in compose": {
			"web-1  | [2026-02-24 11:59:51 TP0] Decode batch, #running-req: 121, #token: 139222, token usage: 0.87, cuda gr\nweb-1  | aph: True, gen throughput (token/s): 1317.32, #queue-req: 29\n",
			[]string{"1 " + storyEvent},
		},
		"cut at the end": {
			"[2026-02-24 11:59:51 TP0] Decode batch, #running-req: 121, #queue-req: 29, cuda graph: True, gen throughput ...\n[2026-02-24 11:59:52] Cache flushed successfully!\n",
			[]string{"1 2026-02-24 11:59:51 TP0 batch decode=true probe=false run=121 queue=29 gen=unknown tok=unknown"},
		},
		"cut in the middle": {
			"[2026-02-24 11:59:51 TP0] Decode batch, #running-req: 121, #token: 13...gen throughput (token/s): 1317.32, #queue-req: 29\n",
			[]string{"1 2026-02-24 11:59:51 TP0 batch decode=true probe=false run=121 queue=29 gen=1317.32 tok=unknown"},
		},
		"any order, commas, unknown keys": {
			"[2026-02-24 11:59:51 TP0] Decode batch, #queue-req: 29, new thing: (a: b), gen throughput (token/s): 1,317.32, #cached-token: 5, #token: 139,222, #running-req: 121\n",
			[]string{"1 " + storyEvent},
		},
		"lost brackets":        {strings.ReplaceAll(story, "]", "["), []string{"1 " + storyEvent}},
		"lost prefix":          {strings.TrimPrefix(story, "[2026-02-24 11:59:51 "), []string{"1 TP0 batch decode=true probe=false run=121 queue=29 gen=1317.32 tok=139222"}},
		"other logger":         {"2026-02-24 11:59:51,123 | INFO | TP0 | " + story[26:], []string{"1 " + storyEvent}},
		"a level name first":   {"[2026-02-24 11:59:51 TP0] INFO scheduler.py:12: " + story[26:], []string{"1 " + storyEvent}},
		"a zone in the stamp":  {"[2026-02-24T11:59:51Z TP0] " + story[26:], []string{"1 " + storyEvent}},
		"quoted in a report":   {"> " + story, []string{"1 " + storyEvent}},
		"0.1 without words":    {"[gpu_id=0] #running-req: 1, #token: 2, token usage: 0.00, gen throughput (token/s): 3.00, #queue-req: 0", []string{"1 TP0 batch decode=true probe=false run=1 queue=0 gen=3 tok=2"}},
		"init of 0.2":          {"[gpu=0] Init nccl begin.\n", []string{"1 TP0 step 2 0/0"}},
		"ready without prefix": {"The server is fired up and ready to roll!\n", []string{"1 step 20 0/0"}},
		"trace in a record": {
			"[2026-02-24 12:00:00] Initialization failed. warmup error: Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nrequests.exceptions.ReadTimeout: read timed out\n",
			[]string{"1 2026-02-24 12:00:00 fault warmup-failed 2 start-up", "3 2026-02-24 12:00:00 fault startup-failed 2 start-up"},
		},
		"a traceback in the journal": {
			"2026-02-24T12:00:00+0100 gpu7 sglang[12]: [2026-02-24 12:00:00 TP0] Scheduler hit an exception: Traceback (most recent call last):\n" +
				"2026-02-24T12:00:00+0100 gpu7 sglang[12]:   File \"/x/sglang/srt/a.py\", line 1, in f\n" +
				"2026-02-24T12:00:00+0100 gpu7 sglang[12]: RuntimeError: CUDA error: device-side assert triggered\n",
			[]string{"3 2026-02-24 12:00:00 TP0 fault device-assert 1"},
		},
		"colours without their escape": {"[36m(Actor pid=9, ip=10.0.0.1)[0m RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.\n", []string{"1 fault startup-no-kv-memory 1 start-up"}},
		"a capture that fails without memory": {
			"Exception: Capture cuda graph failed: PassManager::run failed\n", []string{"1 fault startup-failed 1 capture"},
		},
		"killed by Ray for memory": {"ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\n", []string{"1 fault host-oom-killed 1"}},
		"shared memory is full":    {"gpu7:12:12 [0] include/alloc.h:112 NCCL WARN Error: failed to extend /dev/shm/nccl-a to 9637892 bytes\n", []string{"1 fault shm-full 1"}},
		"killed, bash script":      {"./run.sh: line 9: 4711 Killed   python -m sglang.launch_server\n", []string{"1 fault killed-unknown 3"}},
		"killed, bash job":         {"[1]+  Killed                  nohup python -m sglang.launch_server\n", []string{"1 fault killed-unknown 3"}},
		"killed, zsh":              {"zsh: killed     python -m sglang.launch_server\n", []string{"1 fault killed-unknown 3"}},
		"killed, zsh job":          {"[1]  + 4711 killed     python -m sglang.launch_server\n", []string{"1 fault killed-unknown 3"}},
		"prose about the dead":     {"The bug was Killed by the patch, 12 Killed in all\n", nil},
		"a child's exit code":      {"[2026-02-24 12:00:00] Child process unexpectedly failed with an exit code -9. pid=123\n", []string{"1 2026-02-24 12:00:00 fault worker-died 2"}},
		"another rank writes into a record": {
			"[2026-02-24 11:59:50 TP0] Decode batch, #running-req: 8, #token: 300, token usage: 0.10, gen throughput (token/s): 9" + story + "\n",
			[]string{"1 2026-02-24 11:59:50 TP0 batch decode=true probe=false run=8 queue=unknown gen=unknown tok=300", "1 " + storyEvent},
		},
		"gpu prefix": {"[gpu=3] Decode batch. #running-req: 1, #token: 2, token usage: 0.00, gen throughput (token/s): 3.00, #queue-req: 0", []string{"1 TP3 batch decode=true probe=false run=1 queue=0 gen=3 tok=2"}},
		"health probe": {
			"[2026-02-24 12:45:54 TP0] Prefill batch, #new-seq: 1, #new-token: 1, #cached-token: 0, token usage: 0.00, #running-req: 0, #queue-req: 0, input throughput (token/s): 3.58, cuda graph: False",
			[]string{"1 2026-02-24 12:45:54 TP0 batch decode=false probe=true run=0 queue=0 gen=unknown tok=unknown"},
		},
		"a prompt with log text": {
			"[2026-02-24 12:00:00] Receive: obj=GenerateReqInput(text='see " + story + " RuntimeError: CUDA error: an illegal memory access')\n" +
				"[2026-02-24 12:00:01] Finish: obj=GenerateReqInput(text=\"" + story + "\"), out={'text': 'Killed'}\n",
			nil,
		},
		"a prompt over several lines": {
			"[2026-02-24 12:00:00] Receive: obj=GenerateReqInput(text='explain this log:\n" +
				"[2025-01-01 00:00:00 TP0] Decode batch, #running-req: 7, #token: 1, token usage: 0.99, gen throughput (token/s): 1.00, #queue-req: 999\n" +
				"RuntimeError: CUDA error: an illegal memory access was encountered\n" +
				"and say why', sampling_params={})\n" + story + "\n",
			[]string{"5 " + storyEvent},
		},
		"a prompt that never ends": {
			"[2026-02-24 11:59:50] Receive: obj=GenerateReqInput(text='cut here\n" + story + "\n",
			[]string{"2 " + storyEvent},
		},
		"a bar over prompts is no prompt": {"Processing prompts:   0%|    | 0/4 [00:00<?, ?it/s]" + story, []string{"1 " + storyEvent}},
		"prose about batches":             {"[2026-02-24 12:00:00] Decode batch size #1 is set by the user\n", nil},
		"retraction": {
			"[2026-02-24 12:00:00 TP0] KV cache pool is full. Retract requests. #retracted_reqs: 3, #new_tokens_gained: 9000, #new_token_ratio: 0.4100 -> 0.6312\n",
			[]string{"1 2026-02-24 12:00:00 TP0 retract 3 0.41->0.6312"},
		},
		"drain": {
			"[2026-02-24 12:00:00] SIGTERM received. signum=15 frame=None. Draining requests and shutting down...\n[2026-02-24 12:00:05] Gracefully exiting... Remaining number of requests 12. Remaining requests remaining_rids=['Killed'].\n",
			[]string{"1 2026-02-24 12:00:00 stop SIGTERM unknown false", "2 2026-02-24 12:00:05 stop SIGTERM 12 false"},
		},
		"separator": {"==== runvigil start 20260224-ab ====\n", []string{"1 separator 20260224-ab"}},
		"capture failed": {
			"[2026-02-24 12:00:00 TP1] Scheduler hit an exception: Traceback (most recent call last):\n  File \"/sgl/srt/cuda_graph_runner.py\", line 1, in capture\n    x\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n\nDuring handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\n  File \"a.py\", line 3, in __init__\nException: Capture cuda graph failed: CUDA out of memory\nPossible solutions:\n1. set --mem-fraction-static to a smaller value\n",
			[]string{"4 2026-02-24 12:00:00 TP1 fault capture-oom 1 capture", "10 2026-02-24 12:00:00 TP1 fault capture-oom 1 capture"},
		},
		"port in use": {
			"[2026-02-24 12:00:00] ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address already in use\n",
			[]string{"1 2026-02-24 12:00:00 fault port-in-use 1 start-up"},
		},
		"bad flag":         {"launch_server.py: error: unrecognized arguments: --mem-fraction 0.9\n", []string{"1 fault bad-flag 1 start-up"}},
		"ray actor":        {"\x1b[36m(Scheduler pid=9, ip=10.0.0.1)\x1b[0m " + story, []string{"1 " + storyEvent}},
		"torch rank":       {"[rank3]: Traceback (most recent call last):\n[rank3]:   File \"/x/sglang/srt/a.py\", line 1, in f\n[rank3]: RuntimeError: NCCL error: unhandled system error\n", []string{"3 rank 3 fault nccl-error 1"}},
		"child killed":     {"[2026-02-24 12:00:00] Subprocess scheduler_0 (pid=99) crashed with exit code -9. Triggering SIGQUIT for cleanup...\n", []string{"1 2026-02-24 12:00:00 fault worker-died 2"}},
		"asgi exception":   {"ERROR:    Exception in ASGI application\nTraceback (most recent call last):\n  File \"/x/uvicorn/a.py\", line 1, in f\nValueError: bad input\n", []string{"4 fault startup-failed 2 start-up"}},
		"cut access line":  {"INFO:     127.0.0.1:58310 - \"POST /v1/chat/completions \n", nil},
		"draft model":      {"[2026-02-24 12:00:00 TP0] Capture draft decode CUDA graph begin. backend=full, bs=[1, 2], avail mem=5.00 GB\n", []string{"1 2026-02-24 12:00:00 TP0 step 11 draft decode 0/0"}},
		"new capture end":  {"[2026-02-24 12:00:00 TP0] Capture target decode CUDA graph end. elapsed=5.29 s, mem usage=1.44 GB, avail mem=38.11 GB.\n", []string{"1 2026-02-24 12:00:00 TP0 step 13 target decode 0/0"}},
		"labelled KV line": {"[2026-02-24 12:00:00 TP0] draft KV Cache is allocated. dtype: torch.bfloat16, #tokens: 5, KV size: 1.50 GB\n", []string{"1 2026-02-24 12:00:00 TP0 step 9 draft 0/0"}},
	} {
		if got := events(c.log); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got %q\nwant %q", name, got, c.want)
		}
	}
}

func TestArgs(t *testing.T) {
	log := "[2026-02-24 11:55:02] server_args=ServerArgs(model_path='/data/Kimi-K2.5', served_model_name=None, api_key='sk-1, \\'x', port=8000, mem_fraction_static=0.88, lora_paths=['a', 'b(c'], json_model_override_args='{\"a\": \"b, c\"}', hicache_size=48)\n"
	s := read([]byte(log))
	now := s.Now()
	want := map[string]string{
		"model_path": "/data/Kimi-K2.5", "served_model_name": "None", "api_key": metrics.Masked, "port": "8000",
		"mem_fraction_static": "0.88", "lora_paths": "['a', 'b(c']", "json_model_override_args": `{"a": "b, c"}`, "hicache_size": "48",
	}
	for name, v := range want {
		if now.Flags[name] != v {
			t.Errorf("%s = %q, want %q", name, now.Flags[name], v)
		}
	}
	if len(now.Flags) != len(want) || now.Model != "/data/Kimi-K2.5" || now.Port != 8000 {
		t.Errorf("flags %v, model %q, port %d", now.Flags, now.Model, now.Port)
	}
}

func TestStamps(t *testing.T) {
	at := func(text string) Stamp {
		s, _, ok := parseStamp([]byte(text), 0)
		if !ok {
			t.Fatalf("%q is no stamp", text)
		}
		return s
	}
	if d, ok := at("00:00:05").Sub(at("23:59:58")); !ok || d != 7 {
		t.Errorf("over midnight: %v, %v", d, ok)
	}
	if d, ok := at("2026-03-01 00:00:00").Sub(at("2026-02-28 23:59:59.5")); !ok || d != 0.5 {
		t.Errorf("over the end of a month: %v, %v", d, ok)
	}
	for _, s := range []string{"2026-13-01 00:00:00", "25:00:00", "2026-02-24 11:5", "ab:cd:ef"} {
		if got, _, ok := parseStamp([]byte(s+"          "), 0); ok {
			t.Errorf("%q read as %v", s, got)
		}
	}
}

// checkEvent fails on anything that could reach a terminal or grow without bound.
func checkEvent(t *testing.T, ev *Event) {
	t.Helper()
	texts := []string{ev.Separator}
	switch ev.Kind {
	case KindAccess:
		texts = append(texts, ev.Access.Client, ev.Access.Method, ev.Access.Path)
	case KindFault:
		texts = append(texts, ev.Fault.Detail, string(ev.Fault.Class), ev.Fault.Phase)
		if _, ok := ev.Fault.Class.Info(); !ok {
			t.Errorf("class %q is not in the closed list", ev.Fault.Class)
		}
	case KindStartup:
		texts = append(texts, ev.Startup.Label, ev.Startup.Dtype, ev.Startup.Addr)
		for k, v := range ev.Startup.Flags {
			texts = append(texts, k, v)
		}
	}
	for _, s := range texts {
		if len(s) > 600 || !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
			t.Errorf("text %q", s)
		}
	}
}

func FuzzParser(f *testing.F) {
	files, err := filepath.Glob(filepath.Join(casesDir, "*-sglang-*.txt"))
	if err != nil || len(files) == 0 {
		f.Fatalf("no cases: %v", err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, uint16(0))
	}
	f.Add([]byte(story+"\n"), uint16(3))
	f.Fuzz(func(t *testing.T, data []byte, chunk uint16) {
		var p Parser
		var s State
		n := 0
		take := func(ev *Event) {
			n++
			checkEvent(t, ev)
			s.Apply(ev)
		}
		size := int(chunk) + 1
		for i := 0; i < len(data); i += size {
			p.Feed(data[i:min(len(data), i+size)], take)
		}
		p.Flush(take)
		if n > len(data) {
			t.Errorf("%d events from %d bytes", n, len(data))
		}
		s.Level()
		_ = s.Version()
		for _, st := range s.Starts() {
			if len(st.Faults) > maxFaults || len(st.ranks) > maxRanks {
				t.Errorf("%d faults, %d ranks", len(st.Faults), len(st.ranks))
			}
			for _, c := range st.Causes(s.NewestFirst()) {
				_ = c.Advice()
			}
		}
		OldestFirst(data)
	})
}

func TestLongLinesAreBounded(t *testing.T) {
	var p Parser
	var dump Dump
	take := func(ev *Event) {
		if ev.Kind == KindDump {
			dump = *ev.Dump
		}
	}
	p.Feed([]byte("[2025-08-02 19:51:04 TP3] self.cur_batch.batch_size()=112, self.cur_batch.reqs=[Req(input_ids=["), take)
	for range 1000 {
		p.Feed([]byte(strings.Repeat("128000, ", 1000)), take)
	}
	p.Feed([]byte("])], self.token_to_kv_pool_allocator.available_size()=2193, self.tree_cache.evictable_size()=482854, \n"), take)
	if want := (Dump{num(112), num(2193), num(482854)}); dump != want {
		t.Errorf("dump = %+v, want %+v", dump, want)
	}
}
