package jsonl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/runvigil/runvigil/metrics"
)

var salt = []byte("test")

func TestShapes(t *testing.T) {
	for _, c := range []struct {
		name, row string
		length    int
		tokens    bool
		want      metrics.RowsJudged
	}{
		{"sglang native", `{"text":"abc","meta_info":{"id":"x","finish_reason":{"type":"length","length":4096},"prompt_tokens":420,"completion_tokens":4096}}`, 4096, true, metrics.RowsJudged{Truncated: 1, Finished: 1}},
		{"sglang nested", `{"id":3,"sample":1,"prompt":"p","output":{"text":"abcd","meta_info":{"completion_tokens":2,"finish_reason":{"type":"stop","matched":2}}}}`, 2, true, metrics.RowsJudged{Finished: 1}},
		{"sglang list", `{"id":3,"response":[{"text":"ab","meta_info":{"completion_tokens":7}}]}`, 7, true, metrics.RowsJudged{}},
		{"chat", `{"id":"chatcmpl-1","choices":[{"index":0,"message":{"role":"assistant","content":"héllo"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":5}}`, 5, true, metrics.RowsJudged{Finished: 1}},
		{"chat without usage", `{"choices":[{"message":{"content":"héllo"},"finish_reason":"length"}]}`, 5, false, metrics.RowsJudged{Finished: 1, Truncated: 1}},
		{"completion", `{"choices":[{"text":" abc","finish_reason":"stop"}]}`, 4, false, metrics.RowsJudged{Finished: 1}},
		{"batch", `{"custom_id":"a","response":{"status_code":200,"body":{"choices":[{"message":{"content":"xy"}}],"usage":{"completion_tokens":9}}},"error":null}`, 9, true, metrics.RowsJudged{}},
		{"batch error", `{"custom_id":"a","response":{"status_code":500,"body":{"error":{"message":"m"}}}}`, -1, false, metrics.RowsJudged{Errors: 1}},
		{"flat", `{"id":1,"prompt":"long prompt","response":"ab\u00e9"}`, 3, false, metrics.RowsJudged{}},
		{"flat prompt in text", `{"text":"the prompt","completion":""}`, 0, false, metrics.RowsJudged{Empty: 1}},
		{"blank", `{"id":1,"response":" \n\t"}`, 3, false, metrics.RowsJudged{Empty: 1}},
		{"null", `{"id":1,"response":null}`, 0, false, metrics.RowsJudged{Empty: 1}},
		{"error", `{"id":1,"response":null,"error":"ReadTimeout"}`, -1, false, metrics.RowsJudged{Errors: 1}},
		{"error empty", `{"id":1,"response":"x","error":""}`, 1, false, metrics.RowsJudged{}},
		{"aborted", `{"text":"","meta_info":{"finish_reason":{"type":"abort","message":"m"}}}`, -1, false, metrics.RowsJudged{Errors: 1, Finished: 1}},
		{"transcript", `{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"four"}]}`, 4, false, metrics.RowsJudged{}},
		{"sharegpt", `{"conversations":[{"from":"human","value":"q"},{"from":"gpt","value":""}]}`, 0, false, metrics.RowsJudged{Empty: 1}},
		{"tool call", `{"choices":[{"message":{"role":"assistant","content":null,"tool_calls":[{"id":"c"}]}}]}`, 0, false, metrics.RowsJudged{}},
		{"tool call first", `{"choices":[{"message":{"tool_calls":[{"id":"c"}],"content":null}}]}`, 0, false, metrics.RowsJudged{}},
		{"flag", `{"id":1,"response":"x","truncated":true}`, 1, false, metrics.RowsJudged{Finished: 1, Truncated: 1}},
		{"thought", `{"choices":[{"message":{"reasoning_content":"abc","content":"de"}}]}`, 5, false, metrics.RowsJudged{}},
		{"ids", `{"input_ids":[1,2],"output_ids":[1,2,3]}`, 3, true, metrics.RowsJudged{}},
		{"surrogates", `{"output":"\ud83d\ude00!"}`, 2, false, metrics.RowsJudged{}},
		{"python", `{"output":"a","score":NaN,"max":-Infinity}`, 1, false, metrics.RowsJudged{}},
		{"parts", `{"choices":[{"message":{"content":[{"type":"text","text":"ab"},{"type":"text","text":"c"}]}}]}`, 3, false, metrics.RowsJudged{}},
		{"outputs", `{"id":1,"outputs":["ab","c"]}`, 3, false, metrics.RowsJudged{}},
		{"array", `["prompt","x"]`, -1, false, metrics.RowsJudged{}},
		{"no output", `{"id":105955,"label":"SUPPORTS","evidence":[[[124378,"P",3]]]}`, -1, false, metrics.RowsJudged{}},
		{"bad", `{"id":1,"response":"x"`, -1, false, metrics.RowsJudged{Invalid: 1}},
		{"bad escape", `{"id":1,"response":"\x"}`, -1, false, metrics.RowsJudged{Invalid: 1}},
		{"two in a line", `{"id":1}{"id":2}`, -1, false, metrics.RowsJudged{Invalid: 1}},
		{"bare", `42`, -1, false, metrics.RowsJudged{Invalid: 1}},
	} {
		got := Judge([]byte(c.row+"\n"), true, salt)
		want := c.want
		want.Rows = 1
		want.InTokens = c.tokens
		if c.length >= 0 {
			want.Lengths = []int{c.length}
		}
		want.Hashes = got.Hashes
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s:\n got %+v\nwant %+v", c.name, got, want)
		}
	}
}

func TestJudgeWindow(t *testing.T) {
	tail := []byte(`onse":"cut at the front"}` + "\n" + `{"id":1,"response":"a"}` + "\r\n\n" + `{"id":2,"response":"b"}` + "\n" + `{"id":3,"resp`)
	j := Judge(tail, false, salt)
	if j.Rows != 2 || j.Invalid != 0 || len(j.Hashes) != 2 || j.NUL {
		t.Errorf("%+v", j)
	}
	if j = Judge([]byte(`{"id":2,"response":"b"}`), true, salt); j.Rows != 1 {
		t.Errorf("a whole row without a newline: %+v", j)
	}
	if j = Judge([]byte("\x00\x00\x00{\"id\":2}\n"), true, salt); !j.NUL || j.Invalid != 1 {
		t.Errorf("NUL bytes: %+v", j)
	}
	if j = Judge([]byte("[\n  {\n    \"id\": 1,\n    \"x\": 2\n  },\n  {\n"), true, salt); j.Rows != 0 || j.Invalid != 0 {
		t.Errorf("indented JSON is no JSONL: %+v", j)
	}
	if j = Judge([]byte("[\n{\"id\":1,\"output\":\"a\"},\n{\"id\":2,\"output\":\"b\"}\n]\n"), true, salt); j.Rows != 2 || j.Invalid != 0 {
		t.Errorf("an array with one row a line: %+v", j)
	}
	if j = Judge(bytes.Repeat([]byte("x"), 2*MaxTail), true, salt); j.Rows != 0 {
		t.Errorf("one row longer than the window: %+v", j)
	}
}

func TestHashes(t *testing.T) {
	hash := func(row string, salt string) uint64 {
		j := Judge([]byte(row+"\n"), true, []byte(salt))
		if len(j.Hashes) != 1 {
			t.Fatalf("%s: %+v", row, j)
		}
		return j.Hashes[0]
	}
	base := hash(`{"id":"a","sample":0,"response":"x"}`, "s")
	if hash(`{"id":"a","sample":0,"response":"other"}`, "s") != base {
		t.Error("the content is part of the hash")
	}
	for _, row := range []string{`{"id":"a","sample":1,"response":"x"}`, `{"id":"b","sample":0,"response":"x"}`} {
		if hash(row, "s") == base {
			t.Errorf("%s hashes like another row", row)
		}
	}
	if hash(`{"id":"a","sample":0,"response":"x"}`, "t") == base {
		t.Error("the salt does not count")
	}
	if hash(`{"id":"q","index":0}`, "s") == hash(`{"id":"q","index":1}`, "s") {
		t.Error("numbered samples of one id are equal")
	}
	if j := Judge([]byte(`{"response":"x"}`+"\n"), true, salt); len(j.Hashes) != 0 {
		t.Error("a row without an id has a hash")
	}
}

func TestValidityAgreesWithEncodingJSON(t *testing.T) {
	for _, s := range []string{`{}`, `{"a":1,}`, `{"a" 1}`, `{"a":01}`, `{"a":-}`, `{"a":1e5,"b":[1,2,{"c":null}]}`, `{"a":tru}`, `{"a":"\ud800"}`, "{\"a\":\"\x01\"}", `{"a":.5}`, `{"a":1.}`, `[]`, `[1 2]`, `{"a":"b"}}`, `{`, `{"a":"\u12g4"}`, ` {"a":1} `} {
		_, ok := judge([]byte(s))
		if ok != json.Valid([]byte(s)) {
			t.Errorf("%q: %v", s, ok)
		}
	}
}

func TestReadCases(t *testing.T) {
	index, err := os.ReadFile("../../testdata/cases/INDEX.tsv")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(index)) {
		f := strings.Split(line, "\t")
		if len(f) < 6 || f[3] != "jsonl" && f[2] != "jsonl" {
			continue
		}
		names, _ := filepath.Glob("../../testdata/cases/" + f[0] + "-*")
		in, err := os.Open(names[0])
		if err != nil {
			t.Fatal(err)
		}
		got, err := Read(in)
		in.Close()
		if err != nil {
			t.Fatal(err)
		}
		for w := range strings.FieldsSeq(f[5]) {
			k, v, ok := strings.Cut(w, "=")
			if !ok {
				continue
			}
			n++
			have := map[string]string{"records_ok": fmt.Sprint(got.Rows - got.Invalid), "last_complete_id": got.LastID, "torn_tail": map[bool]string{true: "yes", false: "no"}[got.Torn]}
			if h, known := have[strings.TrimSuffix(k, ":")]; !known || h != v {
				t.Errorf("%s: %s = %q, want %q (known %v)", f[0], k, h, v, known)
			}
		}
	}
	if n == 0 {
		t.Error("no figure was checked")
	}
}

func TestReadFile(t *testing.T) {
	var b bytes.Buffer
	for i := range 1000 {
		fmt.Fprintf(&b, `{"id":%d,"text":"%s","meta_info":{"completion_tokens":%d,"finish_reason":{"type":"length"}}}`+"\n", i%900, strings.Repeat("x", i), i)
	}
	b.WriteString("\x00\x00\n" + `{"id":"x","response":"` + strings.Repeat("y", MaxRow) + "\"}\n" + `{"id": 9`)
	f, err := Read(&b)
	if err != nil {
		t.Fatal(err)
	}
	if f.Rows != 1002 || f.Duplicates != 100 || f.Invalid != 1 || f.NULs != 2 || f.Oversize != 1 || !f.Torn || f.FinalNL ||
		f.Truncated != 1000 || !f.InTokens || f.Median != 500 || f.LastID != "99" {
		t.Errorf("%+v", f)
	}
	if f, _ = Read(strings.NewReader("")); f.Rows != 0 || f.Torn || f.Median != -1 {
		t.Errorf("empty: %+v", f)
	}
	if f, _ = Read(strings.NewReader(`{"a":1}` + "\n" + `{"a":2}` + "\n" + `{"a":1}` + "\n" + `{"a":3}{"a":4}` + "\n" + `{"a": "cut{"a":5}` + "\n")); f.Duplicates != 1 || f.Glued != 1 || f.Invalid != 2 || f.LastID != "" {
		t.Errorf("rows without ids: %+v", f)
	}
	if f, _ = Read(strings.NewReader("{\n  \"a\": 1\n}\n")); !f.Indented {
		t.Errorf("indented: %+v", f)
	}
}

func TestPrettyRow(t *testing.T) {
	row := `{"id":7,"api_key":"sk-abcdefghijklmnop","response":"line one\nline two \u001b[31mred` + strings.Repeat("é", 500) + `","list":[1,2,3,4,5,6,7,8,9,10,11],"meta":{"ok":true,"none":null}}`
	out := PrettyRow([]byte(row))
	all := strings.Join(out, "\n")
	for _, has := range []string{"id: 7", "response: line one", "  line two red", "more characters)", "list:", "… 3 more", "  ok: true", "  none: null"} {
		if !strings.Contains(all, has) {
			t.Errorf("missing %q in\n%s", has, all)
		}
	}
	if strings.Contains(all, "sk-abc") || strings.Contains(all, "\x1b") {
		t.Errorf("secret or escape shown:\n%s", all)
	}
	if got := PrettyRow([]byte("not json\x07 at all")); !slices.Equal(got, []string{"not json at all"}) {
		t.Errorf("%q", got)
	}
	if got := PrettyRow([]byte(`{"id":1,"a":"b","text":"cut`)); !strings.Contains(got[len(got)-1], "cut or not JSON") {
		t.Errorf("%q", got)
	}
}

func FuzzJudge(f *testing.F) {
	names, _ := filepath.Glob("../../testdata/cases/*jsonl*")
	for _, n := range names {
		b, _ := os.ReadFile(n)
		f.Add(b)
	}
	f.Add([]byte(`{"id":1,"choices":[{"message":{"content":"\ud83d\ude00","tool_calls":[{}]},"finish_reason":["a",{"type":"length"}]}],"usage":{"completion_tokens":1e3}}` + "\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		j := Judge(b, true, salt)
		if j.Invalid+j.Errors+j.Empty > j.Rows || j.Truncated > j.Finished || len(j.Lengths) > j.Rows || len(j.Hashes) > j.Rows {
			t.Fatalf("%+v", j)
		}
		for line := range bytes.Lines(b) {
			line = bytes.TrimSpace(line)
			_, ok := judge(line)
			if !ok && len(line) > 0 && (line[0] == '{' || line[0] == '[') && json.Valid(line) && bytes.Count(line, []byte("{"))+bytes.Count(line, []byte("[")) < maxDepth {
				t.Fatalf("valid JSON refused: %q", line)
			}
			for _, l := range PrettyRow(line) {
				if strings.TrimLeft(l, " ") != metrics.Clean(strings.TrimLeft(l, " "), 0) {
					t.Fatalf("dirty line %q", l)
				}
			}
		}
		if _, err := Read(bytes.NewReader(b)); err != nil {
			t.Fatal(err)
		}
	})
}

func benchRows() []byte {
	var b bytes.Buffer
	for i := range 200 {
		fmt.Fprintf(&b, `{"id":%d,"prompt":"%s","text":"%s","meta_info":{"completion_tokens":4000,"finish_reason":{"type":"stop"}}}`+"\n", i, strings.Repeat("word ", 400), strings.Repeat("some text \\n ", 1500))
	}
	return b.Bytes()
}

func BenchmarkJudge(b *testing.B) {
	data := benchRows()[:MaxTail]
	b.SetBytes(MaxTail)
	for b.Loop() {
		Judge(data, true, salt)
	}
}

func BenchmarkRead(b *testing.B) {
	data := benchRows()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := Read(bytes.NewReader(data)); err != nil {
			b.Fatal(err)
		}
	}
}
