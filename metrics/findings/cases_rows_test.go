package findings

import (
	"time"

	"github.com/runvigil/runvigil/metrics"
)

// series puts a curve of the last hour into a snapshot, a point every 10 s.
func series(s *metrics.Snapshot, what, of string, at func(age time.Duration) float64) {
	if s.Series == nil {
		s.Series = map[metrics.SeriesKey]*metrics.Series{}
	}
	c := &metrics.Series{}
	for age := 70 * time.Minute; age >= 0; age -= 10 * time.Second {
		c.Add(noon.Add(-age), at(age))
	}
	s.Series[metrics.SeriesKey{What: what, Of: of}] = c
}

func flat(v float64) func(time.Duration) float64 { return func(time.Duration) float64 { return v } }

func judged(rows, empty, cut int) *metrics.RowsJudged {
	return &metrics.RowsJudged{Rows: rows, Empty: empty, Truncated: cut, Finished: rows}
}

func rowCases() []caseOf {
	const warning, critical, info = metrics.SeverityWarning, metrics.SeverityCritical, metrics.SeverityInfo
	deleted := func(held string) metrics.LogRef {
		return metrics.LogRef{Path: "/data/logs/client.log", Bytes: fig(4000), Mtime: noon.Add(-3 * time.Second), Deleted: noon.Add(-2 * time.Minute), Held: held}
	}
	second := func(s *metrics.Snapshot) *metrics.Client {
		c := s.Clients[0]
		c.ID, c.PID, c.Started = "202674:1", 202674, noon.Add(-3*time.Hour)
		s.Clients = append(s.Clients, c)
		return &s.Clients[1]
	}
	unsaved := func(s *metrics.Snapshot) {
		s.Datasets = nil
		s.Job = metrics.Job{}
		s.Clients[0].Datasets = nil
		s.Servers[0].Started = noon.Add(-time.Hour)
		s.Servers[0].Port = 8000
	}
	return []caseOf{
		{"silent for long, but no longer than once before", func(s *metrics.Snapshot) {
			s.Clients[0].Log.Mtime, s.Clients[0].LogSilentSince = noon.Add(-20*time.Minute), noon.Add(-20*time.Minute)
			s.Clients[0].Log.Gap = 5 * time.Minute
		}, "", 0, "", nil, nil},
		{"silent for longer than ever", func(s *metrics.Snapshot) {
			s.Clients[0].Log.Mtime, s.Clients[0].LogSilentSince = noon.Add(-20*time.Minute), noon.Add(-20*time.Minute)
			s.Clients[0].Log.Gap = time.Minute
		}, "client-log-silent", warning, "", []string{"silent since 11:56"}, nil},
		{"the client's log was deleted", func(s *metrics.Snapshot) { s.Clients[0].Log = deleted("/proc/206570/fd/1") },
			"log-stale", warning, metrics.CauseLogStopped, []string{"log of run_inference.py 206570 (client.log) was deleted at 12:14", "/proc/206570/fd/1 is that file, deleted", "cp /proc/206570/fd/1 '/data/logs/client.log.saved'"}, nil},
		{"the client's log was deleted, and who has it open is not known", func(s *metrics.Snapshot) { s.Clients[0].Log = deleted("") },
			"log-stale", warning, metrics.CauseLogStopped, []string{"ls -l /proc/206570/fd"}, nil},
		{"a log of the configuration was deleted", func(s *metrics.Snapshot) {
			s.Config.Logs = []string{"/data/logs/router.log"}
			s.Logs = map[string]*metrics.LogTail{"/data/logs/router.log": {Path: "/data/logs/router.log", Deleted: noon.Add(-2 * time.Minute)}}
		}, "log-stale", info, metrics.CauseLogStopped, []string{"router.log", "nobody is known who writes it", "take it out of the configuration"}, nil},
		{"a silent log that was deleted is told once", func(s *metrics.Snapshot) {
			s.Clients[0].Log = deleted("/proc/206570/fd/1")
			s.Clients[0].Log.Mtime, s.Clients[0].LogSilentSince, s.Clients[0].Log.Gap = noon.Add(-20*time.Minute), noon.Add(-20*time.Minute), time.Minute
		}, "log-stale", warning, metrics.CauseLogStopped, nil, nil},
		{"the client is stopped", func(s *metrics.Snapshot) {
			s.Datasets[0].Grew = noon.Add(-3 * time.Minute)
			s.Job.Finished, s.Clients[0].State = fig(190), "stopped"
		}, "rows-stalled", critical, metrics.CauseRequestsLost, []string{"kill -CONT 206570"}, nil},
		{"the client writes the next part", func(s *metrics.Snapshot) {
			s.Datasets[0].Grew = noon.Add(-3 * time.Minute)
			s.Job.Finished = fig(190)
			s.Clients[0].Datasets = append(s.Clients[0].Datasets, "/data/b3.jsonl")
			s.Datasets = append(s.Datasets, metrics.Dataset{Path: "/data/b3.jsonl", Grew: noon, Writers: []int{206570}})
		}, "rows-stalled", info, metrics.CauseRequestsLost, []string{"writes another file now: /data/b3.jsonl"}, []string{"work-lost"}},
		{"the client ran out of files", func(s *metrics.Snapshot) {
			s.Datasets[0].Grew = noon.Add(-3 * time.Minute)
			s.Job.Finished = fig(190)
			s.Clients[0].Causes = []metrics.CauseFact{{Class: metrics.CauseTooManyFiles, Line: "OSError: [Errno 24]", LineNo: 7, Primary: true}}
		}, "rows-stalled", critical, metrics.CauseTooManyFiles, []string{"ulimit -n", "Errno 24"}, nil},
		{"nothing counts what finishes, and rows stopped", func(s *metrics.Snapshot) {
			s.Servers[0].Finished, s.Job.Finished, s.Job.Landed = metrics.Figure{}, metrics.Figure{}, metrics.Figure{}
			s.Datasets[0].Grew = noon.Add(-20 * time.Minute)
		}, "rows-stalled", warning, metrics.CauseRequestsLost, []string{"no row in b2.jsonl for 20 m while 606 tok/s flow", "counted by neither"}, nil},
		{"nothing counts what finishes, for ten minutes", func(s *metrics.Snapshot) {
			s.Servers[0].Finished, s.Job.Finished, s.Job.Landed = metrics.Figure{}, metrics.Figure{}, metrics.Figure{}
			s.Datasets[0].Grew = noon.Add(-10 * time.Minute)
		}, "", 0, "", nil, nil},
		{"nothing counts a streaming client's requests, and rows stopped", func(s *metrics.Snapshot) {
			s.Job.Finished = metrics.Figure{}
			s.Datasets[0].Grew = noon.Add(-20 * time.Minute)
		}, "rows-stalled", warning, metrics.CauseRequestsLost, []string{"no row in b2.jsonl for 20 m while 606 tok/s flow", "py-spy dump"}, nil},
		{"a client retries without an end", func(s *metrics.Snapshot) {
			s.Servers[0].State, s.Servers[0].Since = metrics.ServerIdle, noon.Add(-40*time.Minute)
			s.Datasets[0].Grew, s.Clients[0].Started = noon.Add(-40*time.Minute), noon.Add(-2*time.Hour)
			s.Clients[0].LastLine = "404 model not found, retrying"
		}, "rows-stalled", warning, "", []string{"sends nothing for 40 m", "its log grows", "404 model not found", "read the end of its log for errors"}, nil},
		{"an empty log elsewhere", func(s *metrics.Snapshot) {
			s.Clients[0].LogOwned, s.Clients[0].Log.Bytes, s.Clients[0].Log.Mtime = false, fig(0), noon.Add(-19*time.Minute)
			s.Procs = []metrics.Proc{{PID: 206570, FD1: "/root/other.log"}}
		}, "client-log-silent", warning, "", []string{"its output goes to /root/other.log", "descriptor 1 of run_inference.py 206570 is /root/other.log", "look at /proc/206570/fd/1"}, nil},
		{"a writer in batches", func(s *metrics.Snapshot) {
			s.Datasets[0].Grew, s.Datasets[0].Gap = noon.Add(-9*time.Minute), 4*time.Minute
			s.Job.Finished = fig(190)
		}, "", 0, "", nil, nil},
		{"a writer whose habit is not known, for long", func(s *metrics.Snapshot) {
			s.Datasets[0].Grew, s.Datasets[0].Gap = noon.Add(-12*time.Minute), 0
			s.Job.Finished = fig(190)
		}, "rows-stalled", warning, metrics.CauseRequestsLost, []string{"no row in b2.jsonl for 12 m", "py-spy dump"}, nil},
		{"a writer whose habit is not known", func(s *metrics.Snapshot) {
			s.Datasets[0].Grew, s.Datasets[0].Gap = noon.Add(-9*time.Minute), 0
			s.Job.Finished = fig(190)
		}, "", 0, "", nil, nil},

		{"nothing saved", unsaved, "nothing-saved", critical, metrics.CauseRequestsLost, []string{"606 tok/s", "157 requests finished", "/proc/206570/fd"}, nil},
		{"nothing saved by nobody", func(s *metrics.Snapshot) {
			unsaved(s)
			s.Clients = nil
		}, "nothing-saved", critical, metrics.CauseRequestsLost, []string{":8000"}, nil},
		{"a client on another host saves out of sight", func(s *metrics.Snapshot) {
			unsaved(s)
			s.Clients = []metrics.Client{{ID: "host:10.0.0.9", Host: "10.0.0.9", State: "remote"}}
		}, "", 0, "", nil, nil},
		{"a first generation has not finished", func(s *metrics.Snapshot) {
			unsaved(s)
			s.Servers[0].Finished = fig(3)
		}, "", 0, "", nil, nil},

		{"rows get lost in retries", func(s *metrics.Snapshot) {
			s.Job.Finished, s.Job.Landed, s.Job.Since = fig(400), fig(300), noon.Add(-time.Hour)
			s.Clients[0].Causes = []metrics.CauseFact{{Class: metrics.CauseClientTimeouts, Line: "TimeoutError after 600 s", LineNo: 99, Primary: true}}
			s.Clients[0].TimeoutS = fig(600)
		}, "work-lost", warning, metrics.CauseClientTimeouts, []string{"100 of 400", "25 %", "TimeoutError after 600 s", "raise the client's timeout above 600 s"}, nil},
		{"others ask the server too", func(s *metrics.Snapshot) {
			s.Job.Finished, s.Job.Landed, s.Job.Since = fig(400), fig(300), noon.Add(-time.Hour)
		}, "work-lost", info, metrics.CauseRequestsLost, []string{"another one may have asked", "look for retries and timeouts in the client's log"}, nil},
		{"a few are ahead of their rows", func(s *metrics.Snapshot) {
			s.Job.Finished, s.Job.Landed = fig(400), fig(380)
		}, "", 0, "", nil, nil},
		{"most requests are aborted", func(s *metrics.Snapshot) {
			s.Servers[0].Aborted, s.Servers[0].Finished, s.Servers[0].Aborting = fig(159), fig(220), noon.Add(-time.Minute)
		}, "work-lost", warning, metrics.CauseClientTimeouts, []string{"159 of 220", "72 %"}, nil},
		{"requests were aborted long ago", func(s *metrics.Snapshot) {
			s.Servers[0].Aborted, s.Servers[0].Finished, s.Servers[0].Aborting = fig(159), fig(220), noon.Add(-time.Hour)
		}, "", 0, "", nil, nil},
		{"a timeout that is shorter than a request's life", func(s *metrics.Snapshot) {
			s.Servers[0].InFlight = fig(150)
			s.Job.PerMin, s.Job.PerMinOver = fig(9.1), 10*time.Minute
			s.Clients[0].Argv = append(s.Clients[0].Argv, "--timeout", "600")
		}, "work-lost", warning, metrics.CauseClientTimeouts, []string{"lives about 16 m", "gives up after 10 m", "its arguments", "from 600 s to 1500 s", "concurrency to 72"}, nil},
		{"a timeout of the environment", func(s *metrics.Snapshot) {
			s.Servers[0].InFlight = fig(150)
			s.Job.PerMin, s.Job.PerMinOver = fig(9.1), 10*time.Minute
			s.Procs = []metrics.Proc{{PID: 206570, Env: map[string]string{"REQUEST_TIMEOUT": "600"}}}
		}, "work-lost", warning, metrics.CauseClientTimeouts, []string{"gives up after 10 m", "its environment"}, nil},
		{"the same once older requests have landed", func(s *metrics.Snapshot) {
			s.Servers[0].InFlight = fig(150)
			s.Job.PerMin, s.Job.PerMinOver, s.Job.Since = fig(9.1), 10*time.Minute, noon.Add(-time.Hour)
			s.Clients[0].Started = noon.Add(-time.Hour)
			s.Clients[0].Argv = append(s.Clients[0].Argv, "--timeout", "600")
		}, "", 0, "", nil, nil},
		{"no timeout is known", func(s *metrics.Snapshot) {
			s.Servers[0].InFlight = fig(150)
			s.Job.PerMin, s.Job.PerMinOver = fig(9.1), 10*time.Minute
		}, "", 0, "", nil, nil},

		{"a client of an earlier run", func(s *metrics.Snapshot) {
			second(s)
			s.Datasets[0].Writers = []int{202674, 206570}
		}, "client-twice", critical, metrics.CauseRowsDuplicate, []string{"both append to b2.jsonl", "kill 202674"}, nil},
		{"the same command twice on other files", func(s *metrics.Snapshot) {
			second(s).Datasets = []string{"/data/c.jsonl"}
		}, "client-twice", warning, metrics.CauseRowsDuplicate, []string{"run_inference.py 202674"}, nil},
		{"the same words in another folder", func(s *metrics.Snapshot) {
			c := second(s)
			c.Datasets, c.Cwd, s.Clients[0].Cwd = []string{"/data/c.jsonl"}, "/data/c", "/data/b"
		}, "", 0, "", nil, nil},
		{"two parts side by side", func(s *metrics.Snapshot) {
			c := second(s)
			c.Argv, c.Datasets = []string{"python3", "run_inference.py", "--part", "B3"}, []string{"/data/b3.jsonl"}
			s.Datasets = append(s.Datasets, metrics.Dataset{Path: "/data/b3.jsonl", Grew: noon, Writers: []int{202674}})
		}, "", 0, "", nil, nil},
		{"a client on another host has no connection for a while", func(s *metrics.Snapshot) {
			s.Clients = []metrics.Client{{ID: "host:10.0.0.9", Host: "10.0.0.9", State: "gone", Since: noon.Add(-3 * time.Minute)}}
		}, "", 0, "", nil, nil},
		{"a client on another host that sends nothing more", func(s *metrics.Snapshot) {
			s.Clients = []metrics.Client{{ID: "host:10.0.0.9", Host: "10.0.0.9", State: "gone", Since: noon.Add(-6 * time.Minute)}}
			s.Servers[0].State, s.Servers[0].Since = metrics.ServerIdle, noon.Add(-6*time.Minute)
			s.Datasets[0].Grew = noon.Add(-6 * time.Minute)
		}, "client-gone", warning, "", []string{"no client is connected, the one on 10.0.0.9 has not been for 6 m", "cannot be told from here", "look at it on 10.0.0.9"}, nil},
		{"two clients with one log", func(s *metrics.Snapshot) {
			s.Clients[0].Log.Mtime, s.Clients[0].LogSilentSince = noon.Add(-20*time.Minute), noon.Add(-20*time.Minute)
			s.Clients[0].Log.Gap = time.Minute
			second(s).Argv = []string{"python3", "other.py"}
		}, "client-log-silent", warning, "", nil, nil},
		{"rows land from a client that cannot be seen, for a server that tells nothing", func(s *metrics.Snapshot) {
			s.Clients = nil
			s.Servers[0].State, s.Servers[0].Since = metrics.ServerIdle, noon.Add(-6*time.Minute)
		}, "", 0, "", nil, nil},
		{"a client that is stuck", func(s *metrics.Snapshot) {
			s.Servers[0].State, s.Servers[0].Since = metrics.ServerIdle, noon.Add(-20*time.Minute)
			s.Datasets[0].Grew, s.Clients[0].Log.Mtime = noon.Add(-20*time.Minute), noon.Add(-20*time.Minute)
		}, "rows-stalled", warning, "", []string{"lives and sends nothing for 19 m, rows at 11,531 of 88,000", "py-spy dump --pid 206570"}, nil},
		{"a client that computes", func(s *metrics.Snapshot) {
			s.Servers[0].State, s.Servers[0].Since = metrics.ServerIdle, noon.Add(-20*time.Minute)
			s.Datasets[0].Grew, s.Clients[0].Log.Mtime = noon.Add(-20*time.Minute), noon.Add(-20*time.Minute)
			s.Clients[0].Cores = fig(0.9)
		}, "", 0, "", nil, nil},
		{"two stages of one job", func(s *metrics.Snapshot) {
			c := second(s)
			c.Argv, c.Datasets = []string{"python3", "filter.py"}, []string{"/data/filtered.jsonl"}
		}, "", 0, "", nil, nil},
		{"the earlier client has ended", func(s *metrics.Snapshot) { second(s).State = "gone" }, "", 0, "", nil, nil},
		{"it ended by itself with its work done", func(s *metrics.Snapshot) {
			s.Job.Target, s.Datasets[0].Target = metrics.Target{}, metrics.Target{}
			s.Clients[0].State, s.Clients[0].Finished, s.Clients[0].Since = "gone", "All done: 1531 rows", noon.Add(-5*time.Minute)
			s.Servers[0].State, s.Servers[0].Since = metrics.ServerIdle, noon.Add(-5*time.Minute)
		}, "job-done", info, "", []string{"ended by itself at 11,531 rows", "All done"}, nil},
		{"it ended after its input's last row, beside a file without a target", func(s *metrics.Snapshot) {
			s.Job.Target, s.Datasets[0].Target = metrics.Target{}, metrics.Target{Rows: 1531, Inferred: true}
			s.Clients[0].State, s.Clients[0].Since = "gone", noon.Add(-5*time.Minute)
			s.Servers[0].State, s.Servers[0].Since = metrics.ServerIdle, noon.Add(-5*time.Minute)
		}, "job-done", info, "", []string{"ended by itself at 11,531 rows", "each of its files has all its rows", "give it the next job"}, nil},
		{"it says it is done and rows are missing", func(s *metrics.Snapshot) {
			s.Clients[0].State, s.Clients[0].Finished, s.Clients[0].Since = "gone", "All done", noon.Add(-5*time.Minute)
		}, "client-gone", critical, metrics.CauseKilledUnknown, nil, nil},

		{"a client that is a zombie", func(s *metrics.Snapshot) {
			s.Clients[0].State, s.Clients[0].Since = "zombie", noon.Add(-6*time.Minute)
		}, "client-gone", critical, metrics.CauseKilledUnknown, []string{"is a zombie for 6 m"}, nil},
		{"a torn row that nobody completes", func(s *metrics.Snapshot) {
			s.Datasets[0].Torn, s.Datasets[0].Writers, s.Datasets[0].Grew = true, nil, noon.Add(-10*time.Minute)
			s.Clients[0].State, s.Clients[0].Since = "gone", noon.Add(-10*time.Minute)
		}, "rows-torn", warning, metrics.CauseRowsTorn, []string{"sed -i '$d' '/data/b2.jsonl'"}, []string{"client-gone"}},
		{"a torn row under a living writer", func(s *metrics.Snapshot) { s.Datasets[0].Torn = true }, "", 0, "", nil, nil},
		{"NUL bytes", func(s *metrics.Snapshot) { s.Datasets[0].Judged = &metrics.RowsJudged{Rows: 9, NUL: true} },
			"rows-torn", warning, metrics.CauseRowsNUL, []string{"NUL", "generate them again"}, nil},
		{"a file lost rows", func(s *metrics.Snapshot) {
			s.Datasets[0].Reset = &metrics.RowsReset{At: noon.Add(-20 * time.Minute), Path: "/data/b2.jsonl", How: "truncated", Before: 9000}
		}, "rows-shrank", critical, "", []string{"9,000 before, 1,531 now", "truncated", "look for a backup before more is written"}, nil},
		{"a file was moved away", func(s *metrics.Snapshot) {
			s.Datasets[0].Rows = fig(0)
			s.Datasets[0].Reset = &metrics.RowsReset{At: noon.Add(-5 * time.Minute), Path: "/data/b2.jsonl", How: "deleted", Before: 1531, Moved: "/data/done/b2.jsonl"}
		}, "rows-shrank", info, "", []string{"was moved to /data/done/b2.jsonl with its 1,531 rows", "nothing is lost"}, nil},
		{"a file was rewritten on resume", func(s *metrics.Snapshot) {
			s.Datasets[0].Reset = &metrics.RowsReset{At: noon.Add(-5 * time.Minute), Path: "/data/b2.jsonl", How: "replaced", Before: 1531}
		}, "rows-shrank", info, "", []string{"its 1,531 rows are there"}, nil},
		{"rows repeat", func(s *metrics.Snapshot) { s.Datasets[0].Repeats = fig(7) },
			"rows-duplicate", warning, metrics.CauseRowsDuplicate, []string{"7 rows of b2.jsonl", "a resume without a check"}, nil},
		{"one row repeats", func(s *metrics.Snapshot) { s.Datasets[0].Repeats = fig(1) }, "", 0, "", nil, nil},
		{"empty rows", func(s *metrics.Snapshot) {
			s.Datasets[0].Judged, s.Datasets[0].UsualPoor = judged(20, 5, 0), fig(0.01)
		}, "rows-poor", warning, "", []string{"25 %", "5 empty", "1.0 % before", "generate these rows again"}, nil},
		{"a file that always has empty rows", func(s *metrics.Snapshot) {
			s.Datasets[0].Judged, s.Datasets[0].UsualPoor = judged(20, 5, 0), fig(0.2)
		}, "", 0, "", nil, nil},
		{"a file that was worthless from its first row on", func(s *metrics.Snapshot) {
			s.Datasets[0].Judged, s.Datasets[0].UsualPoor = judged(20, 18, 0), fig(0.95)
		}, "rows-poor", warning, "", []string{"90 %", "18 empty", "95 % before"}, nil},
		{"too few rows to judge", func(s *metrics.Snapshot) { s.Datasets[0].Judged = judged(4, 4, 4) }, "", 0, "", nil, nil},
		{"answers are cut", func(s *metrics.Snapshot) {
			d := &s.Datasets[0]
			d.Judged, d.Cut, d.UsualCut, d.Median, d.UsualLength = judged(20, 0, 9), fig(0.45), fig(0.06), fig(4096), fig(4000)
		}, "rows-truncated", warning, "", []string{"45 %", "6.0 % before", "median length", "raise the client's limit of output tokens"}, nil},
		{"answers were always cut", func(s *metrics.Snapshot) {
			s.Datasets[0].Judged, s.Datasets[0].Cut, s.Datasets[0].UsualCut = judged(20, 0, 9), fig(0.45), fig(0.4)
		}, "", 0, "", nil, nil},

		{"a directory took the file's name", func(s *metrics.Snapshot) {
			d := &s.Datasets[0]
			d.Err, d.ErrPath, d.ErrSince = "is a directory", d.Path, noon.Add(-5*time.Second)
		}, "rows-unreadable", critical, "", []string{"b2.jsonl is a directory now", "1,531 rows when it was last counted", "ls -lat '/data'"}, nil},
		{"a file may not be read any more", func(s *metrics.Snapshot) {
			d := &s.Datasets[0]
			d.Err, d.ErrPath, d.ErrSince = "permission denied", d.Path, noon.Add(-5*time.Second)
		}, "rows-unreadable", warning, "", []string{"b2.jsonl cannot be counted: permission denied", "chmod a+r '/data/b2.jsonl'", "since 12:16 is not known"}, nil},
		{"rows stalled in a directory", func(s *metrics.Snapshot) {
			d := &s.Datasets[0]
			d.Err, d.ErrPath, d.ErrSince = "is a directory", d.Path, noon.Add(-3*time.Minute)
			d.Grew, s.Job.Finished = noon.Add(-3*time.Minute), fig(190)
		}, "rows-stalled", critical, metrics.CauseRequestsLost, []string{"/data/b2.jsonl: is a directory", "see rows-unreadable"}, []string{"rows-unreadable"}},
		{"the disk is full", func(s *metrics.Snapshot) { s.Sys.Disks = []metrics.Disk{{Mount: "/data", Avail: fig(0)}} },
			"disk-filling", critical, metrics.CauseDiskFull, []string{"/data is full", "free space on /data"}, nil},
		{"no inodes", func(s *metrics.Snapshot) {
			s.Sys.Disks = []metrics.Disk{{Mount: "/data", Avail: fig(1 << 40), InodesFree: fig(3)}}
		}, "disk-filling", critical, metrics.CauseDiskFull, []string{"inodes"}, nil},
		{"not one inode", func(s *metrics.Snapshot) {
			s.Sys.Disks = []metrics.Disk{{Mount: "/data", Avail: fig(1 << 40), InodesFree: fig(0)}}
		}, "disk-filling", critical, metrics.CauseDiskFull, []string{"has no inodes left", "0 inodes free", "df -i"}, nil},
		{"full before the job ends", func(s *metrics.Snapshot) {
			s.Sys.Disks = []metrics.Disk{{Mount: "/data", Avail: fig(1 << 34), FullIn: 30 * time.Hour}}
			s.Job.ETA = metrics.ETA{Known: true, At: noon.Add(100 * time.Hour)}
		}, "disk-filling", warning, metrics.CauseDiskFull, []string{"full in 1 d 6 h, before the job is done"}, nil},
		{"full after the job ends", func(s *metrics.Snapshot) {
			s.Sys.Disks = []metrics.Disk{{Mount: "/data", Avail: fig(1 << 34), FullIn: 30 * time.Hour}}
			s.Job.ETA = metrics.ETA{Known: true, At: noon.Add(10 * time.Hour)}
		}, "", 0, "", nil, nil},

		{"too few requests", func(s *metrics.Snapshot) {
			series(s, metrics.SeriesQueued, "1:1", flat(0))
			series(s, metrics.SeriesRunning, "1:1", flat(12))
			s.Servers[0].RequestsFit, s.Servers[0].NewRequest = fig(36.4), noon
		}, "underfed", info, "", []string{"12 requests run where about 36 fit", "from 12 to about 36"}, nil},
		{"too few requests from a starved client", func(s *metrics.Snapshot) {
			series(s, metrics.SeriesQueued, "1:1", flat(0))
			series(s, metrics.SeriesRunning, "1:1", flat(12))
			s.Servers[0].RequestsFit, s.Servers[0].NewRequest = fig(36.4), noon
			s.Sys.Load1, s.Sys.CPUs = fig(11), 2
		}, "underfed", info, "", []string{"load 11 on 2 processors", "too little of the processors"}, nil},
		{"a load that nobody minds", func(s *metrics.Snapshot) { s.Sys.Load1, s.Sys.CPUs = fig(11), 2 }, "", 0, "", nil, nil},
		{"a part drains", func(s *metrics.Snapshot) {
			series(s, metrics.SeriesQueued, "1:1", flat(0))
			series(s, metrics.SeriesRunning, "1:1", flat(7))
			s.Servers[0].RequestsFit, s.Servers[0].NewRequest = fig(36.4), noon.Add(-20*time.Minute)
		}, "", 0, "", nil, nil},
	}
}
