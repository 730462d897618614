package explain

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// FuzzRead holds for any bytes: no panic, no control byte in any string, an
// output that stays small, and the schema.
func FuzzRead(f *testing.F) {
	sch := validator(f)
	for _, c := range readCases(f) {
		f.Add(c.data, byte(0))
	}
	all := append([]Kind{KindAuto}, Kinds()...)
	f.Fuzz(func(t *testing.T, data []byte, kind byte) {
		r, err := Read(bytes.NewReader(data), all[int(kind)%len(all)])
		if err != nil && !errors.Is(err, ErrUnknown) {
			t.Fatal(err)
		}
		out, err := r.JSON()
		if err != nil {
			t.Fatal(err)
		}
		if len(out) > 4<<20 {
			t.Errorf("%d bytes of JSON for %d", len(out), len(data))
		}
		for _, text := range []string{string(out[:len(out)-1]), strings.ReplaceAll(r.Text("x"), "\n", "")} {
			for i := range len(text) {
				if text[i] < ' ' || text[i] == 0x7f {
					t.Fatalf("control byte %#x in %q", text[i], text[max(0, i-40):min(len(text), i+40)])
				}
			}
		}
		for _, escape := range []string{`\u001b`, `\u0000`, `\u007f`, `\u009b`} {
			if bytes.Contains(out, []byte(escape)) {
				t.Errorf("%s in %s", escape, out)
			}
		}
		validate(t, sch, r)
	})
}
