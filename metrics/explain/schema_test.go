package explain

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/runvigil/runvigil/metrics"
)

var update = flag.Bool("update", false, "rewrite docs/explain.schema.json")

const schemaPath = "../../docs/explain.schema.json"

// schemaOf describes a Go type as JSON schema: every field is required, and a
// pointer may be null.
func schemaOf(t reflect.Type) map[string]any {
	switch t.Kind() {
	case reflect.Pointer:
		return map[string]any{"anyOf": []any{schemaOf(t.Elem()), map[string]any{"type": "null"}}}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": schemaOf(t.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": schemaOf(t.Elem())}
	case reflect.Struct:
		props, required := map[string]any{}, []any{}
		for i := range t.NumField() {
			name := t.Field(i).Tag.Get("json")
			if name == "" {
				continue
			}
			props[name] = schemaOf(t.Field(i).Type)
			required = append(required, name)
		}
		return map[string]any{"type": "object", "properties": props, "required": required, "additionalProperties": false}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	}
	return map[string]any{"type": "integer"}
}

func schema(t *testing.T) []byte {
	t.Helper()
	s := schemaOf(reflect.TypeFor[Report]())
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "runvigil explain --json"
	s["description"] = "One captured file. Every key is always there; null means that the file does not tell it, 0 that it tells 0. " +
		"tok/s in *_tps, MiB and GiB are powers of two, *_s are seconds, kv_usage is a share of 1, lines are counted from 1."
	names := []any{}
	for _, k := range Kinds() {
		if k != KindSGLang && k != KindVLLM {
			names = append(names, string(k))
		}
	}
	props := s["properties"].(map[string]any)
	props["kind"] = map[string]any{"enum": append(names, nil)}
	classes := []any{}
	for _, c := range metrics.Causes() {
		classes = append(classes, string(c.Cause))
	}
	cause := props["causes"].(map[string]any)["items"].(map[string]any)["properties"].(map[string]any)
	cause["class"] = map[string]any{"enum": classes}
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
		t.Errorf("docs/explain.schema.json is stale: run `go test ./metrics/explain -update`")
	}
}

func validator(t testing.TB) *jsonschema.Schema {
	t.Helper()
	sch, err := jsonschema.NewCompiler().Compile(schemaPath)
	if err != nil {
		t.Fatal(err)
	}
	return sch
}

func validate(t testing.TB, sch *jsonschema.Schema, r *Report) {
	t.Helper()
	doc, err := r.JSON()
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(doc))
	if err != nil {
		t.Fatal(err)
	}
	if err := sch.Validate(v); err != nil {
		t.Errorf("%v\n%s", err, doc)
	}
}

func TestReportsMatchTheSchema(t *testing.T) {
	sch := validator(t)
	for _, c := range readCases(t) {
		validate(t, sch, explained(t, c.data))
	}
	for _, text := range []string{"", "\x00\x01\x02", "nothing that is known\n"} {
		r, err := Read(strings.NewReader(text), KindAuto)
		if err == nil || r.Kind != nil {
			t.Errorf("%q is %v, error %v", text, r.Kind, err)
		}
		validate(t, sch, r)
	}
	// The keys of the JSON object are a promise to scripts.
	var keys []string
	for f := range reflect.TypeFor[Report]().Fields() {
		if name := f.Tag.Get("json"); name != "" {
			keys = append(keys, name)
		}
	}
	const want = "kind engine version state phase running queued gen_tps input_tps kv_usage kv_tokens capacity_tokens max_running_requests " +
		"context_len headroom_gib accept_len progress gpus causes rows torn_tail duplicates starts findings advice"
	if got := strings.Join(keys, " "); got != want {
		t.Errorf("keys %s, want %s", got, want)
	}
}
