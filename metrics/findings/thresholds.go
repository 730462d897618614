package findings

import (
	"slices"
	"strings"

	"github.com/runvigil/runvigil/metrics"
)

// Limit is one threshold: the name by which the configuration overrides it.
type Limit struct {
	Name  string
	Value float64
	Unit  string // s, min, GiB, share (0 to 1), rows, requests, % …
	Means string
}

// limits are the thresholds of all detectors, in the order of the documentation.
var limits = []Limit{
	{"silent_rows", 20, "rows", "rows that must have landed before an empty client log counts as silent"},
	{"client_log_quiet_min_s", 300, "s", "a client log that had lines is silent after this at the earliest"},
	{"client_log_gap_factor", 5, "times", "and after this many times its own longest gap"},
	{"stalled_gap_factor", 5, "times", "rows are stalled after this many times the usual gap between growths"},
	{"stalled_min_s", 60, "s", "but never before"},
	{"stalled_unknown_s", 600, "s", "instead, while the usual gap is not known"},
	{"stalled_uncounted_s", 900, "s", "instead, at least, where nothing counts finished requests"},
	{"stalled_behind", 8, "requests", "finished requests that a writer may hold back, or half more than the most rows that came at once"},
	{"client_idle_s", 900, "s", "a living client with work left sends nothing, and no row and no line of its log comes; twice as long where its log goes on"},
	{"unsaved_s", 900, "s", "tokens flow this long and no dataset grows"},
	{"unsaved_finished", 20, "requests", "and as many requests finished"},
	{"lost_share", 0.05, "share", "of finished requests that reached no file"},
	{"lost_min", 20, "requests", "and at least as many"},
	{"aborted_share", 0.1, "share", "of requests that were aborted"},
	{"client_gone_idle_s", 120, "s", "a server without work and rows below the target: nobody is sending"},
	{"torn_s", 60, "s", "a cut last row that nobody completes"},
	{"shrank_shown_s", 3600, "s", "how long a file that lost rows is shown"},
	{"duplicate_rows", 3, "rows", "whose id had been seen before"},
	{"poor_share", 0.1, "share", "of the newest rows that are empty or errors"},
	{"poor_always", 0.5, "share", "of them that is too much whatever the file's past"},
	{"poor_factor", 3, "times", "and so much more than this file's past"},
	{"rows_judged_min", 8, "rows", "fewer judged rows tell no share"},
	{"cut_share", 0.3, "share", "of the newest rows that ended at the length limit"},
	{"cut_more", 0.2, "share", "and so much more than before"},
	{"disk_full_mib", 16, "MiB", "less free space is full"},
	{"inodes_free_min", 100, "inodes", "fewer free inodes are full"},
	{"disk_soon_s", 86400, "s", "a disk that is full by then is filling, where the job's end is not known"},
	{"underfed_s", 300, "s", "nothing queued and fewer running than fit"},
	{"underfed_share", 0.7, "share", "of what fits that must at least run"},
	{"down_beside_s", 3600, "s", "how long a server that ended beside another that goes on is shown"},
	{"replaced_shown_s", 1800, "s", "how long a replaced server is shown"},
	{"start_slow_factor", 1.5, "times", "the start takes this much longer than earlier ones"},
	{"start_slow_min_s", 1800, "s", "the same where no earlier start is known"},
	{"start_stuck_s", 600, "s", "no sign of progress"},
	{"start_silent_phase_s", 1500, "s", "the same in phases that are silent by nature"},
	{"hung_s", 60, "s", "no token although requests run"},
	{"hung_prefill_s", 180, "s", "the same while the newest line is a prefill"},
	{"rank_silent_s", 120, "s", "a data parallel rank without a line while others have some"},
	{"headroom_warning_gib", 5, "GiB", "free after capture, on cards above headroom_big_card_gib"},
	{"headroom_critical_gib", 1.5, "GiB", "free after capture, on any card"},
	{"headroom_big_card_gib", 60, "GiB", "size of a card for which the warning is meant"},
	{"headroom_proven_prefills", 2000, "prefills", "of chunked-prefill-size tokens; as many prove that a small headroom held"},
	{"retracted_per_min", 1, "1/min", "more retractions are thrashing"},
	{"retract_usage", 0.9, "share", "of the KV pool from which retractions count"},
	{"conservative_usage", 0.9, "share", "of the KV pool below which a queue should not wait"},
	{"queue_growth", 0.3, "share", "by which requests in flight grow in 10 minutes"},
	{"queue_growth_min", 20, "requests", "and at least as many"},
	{"fell_share", 0.3, "share", "by which throughput falls at equal load"},
	{"hicache_idle_s", 900, "s", "the host tier is on and nothing is loaded back"},
	{"log_stale_s", 300, "s", "the log stands still while the server works"},
	{"held_mib", 1024, "MiB", "of GPU memory that no part of the server holds"},
	{"uneven_mib", 2048, "MiB", "by which one GPU grew more than the others"},
	{"uneven_util", 40, "%", "by which one GPU is less busy than the others"},
	{"xid_shown_s", 3600, "s", "how long an error of the kernel log counts as present"},
	{"memory_low_share", 0.03, "share", "of host memory that is left: warning"},
	{"memory_low_gib", 4, "GiB", "of host memory that is left: critical"},
	{"shm_full_share", 0.05, "share", "of /dev/shm that is left"},
	{"swap_used_gib", 4, "GiB", "of swap in use while memory is short"},
	{"link_down_s", 5, "s", "the connection is neither up nor down"},
	{"data_old_s", 60, "s", "a channel of the probe is stuck or failed"},
	{"clock_skew_s", 120, "s", "the node's clock differs from this machine's"},
}

// Limits lists the thresholds in the order of the documentation. The slice is a copy.
func Limits() []Limit { return slices.Clone(limits) }

// KnownThresholds checks the names of a configuration; the error's text is a
// sentence that names the one that is not known and the nearest that is.
func KnownThresholds(names []string) (unknown, near string) {
	for _, n := range names {
		if slices.ContainsFunc(limits, func(l Limit) bool { return l.Name == n }) {
			continue
		}
		best := 0
		for _, l := range limits {
			if c := common(l.Name, n); c > best {
				best, near = c, l.Name
			}
		}
		return n, near
	}
	return "", ""
}

// common is how many letters of two names agree, from the front and from the end.
func common(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	a, b = a[n:], b[n:]
	m := 0
	for m < len(a) && m < len(b) && strings.HasSuffix(b, a[len(a)-1-m:]) {
		m++
	}
	return n + m
}

// Threshold gives the config's value for a name, else the default.
func Threshold(cfg metrics.Config, name string) float64 {
	if v, ok := cfg.Thresholds[name]; ok {
		return v
	}
	for _, l := range limits {
		if l.Name == name {
			return l.Value
		}
	}
	panic("findings: no threshold " + name) // a detector's own mistake, found by its test
}
