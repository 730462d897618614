package explain

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// pair is one member of a JSON object or of a Python dict, at any depth.
var pair = regexp.MustCompile(`["']([A-Za-z_][A-Za-z0-9_]{0,63})["']\s*:\s*("(?:[^"\\]|\\.){0,400}"|'(?:[^'\\]|\\.){0,400}'|-?\d[0-9.eE+-]{0,30}|true|false|null|True|False|None)`)

// salvage reads the members of a status page that is cut or was printed by
// Python: a flat object of those that are whole, the first of each name.
func salvage(data []byte) []byte {
	out := map[string]json.RawMessage{}
	for _, m := range pair.FindAllSubmatch(data, 4096) {
		name, text := string(m[1]), string(m[2])
		if _, there := out[name]; there {
			continue
		}
		switch text {
		case "True", "False":
			text = strings.ToLower(text)
		case "None":
			text = "null"
		}
		if text[0] == '\'' {
			quoted, err := json.Marshal(text[1 : len(text)-1])
			if err != nil {
				continue
			}
			text = string(quoted)
		}
		if json.Valid([]byte(text)) {
			out[name] = json.RawMessage(text)
		}
	}
	flat, err := json.Marshal(out)
	if err != nil {
		return nil
	}
	return flat
}

// infoWord is a member that only a server's status page has.
var infoWord = regexp.MustCompile(`["'](?:server_args|mem_fraction_static|chunked_prefill_size|max_total_num_tokens|internal_states)["']\s*:`)

// isPod tells a Kubernetes object, or a list of them, as -o json prints it.
func isPod(data []byte) bool {
	head := data[:min(len(data), 4<<10)]
	return bytes.Contains(head, []byte(`"apiVersion"`)) || bytes.Contains(head, []byte(`"kind": "Pod"`)) || bytes.Contains(head, []byte(`"kind":"Pod"`))
}

// asYAML prints JSON in the form of -o yaml, which is what the reader of pods
// knows; other bytes come back as they are.
func asYAML(data []byte) []byte {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return data
	}
	var b bytes.Buffer
	yaml(&b, v, 0, 0)
	return b.Bytes()
}

func yaml(b *bytes.Buffer, v any, indent, depth int) {
	pad := strings.Repeat(" ", indent)
	switch t := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(t)) {
			switch t[k].(type) {
			case map[string]any, []any:
				fmt.Fprintf(b, "%s%s:\n", pad, k)
				if depth < 64 {
					yaml(b, t[k], indent+2, depth+1)
				}
			default:
				fmt.Fprintf(b, "%s%s: %s\n", pad, k, scalar(t[k]))
			}
		}
	case []any:
		for _, e := range t {
			var inner bytes.Buffer
			if depth < 64 {
				yaml(&inner, e, indent+2, depth+1)
			}
			text := inner.String()
			if len(text) > indent+2 {
				text = pad + "- " + text[indent+2:]
			}
			b.WriteString(text)
		}
	default:
		fmt.Fprintf(b, "%s%s\n", pad, scalar(v))
	}
}

func scalar(v any) string {
	return strings.NewReplacer("\n", " ", "\r", " ").Replace(fmt.Sprint(v))
}
