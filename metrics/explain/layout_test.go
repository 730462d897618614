package explain

import (
	"fmt"
	"regexp"
)

// layout counts the pipeline or tensor ranks that a log's prefixes name, which
// a report does not tell: what matters is that their copies are not summed.
func (s seen) layout(c fieldCase, name string) string {
	ranks := map[string]bool{}
	for _, m := range regexp.MustCompile(map[string]string{"pp": `\bPP(\d+)`, "tp": `\bTP(\d+)`, "cp": `PP0 ATTN_CP(\d+)`}[name]).FindAllSubmatch(c.data, -1) {
		ranks[string(m[1])] = true
	}
	return fmt.Sprint(len(ranks))
}
