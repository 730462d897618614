# Discovery. A process in state D may hold its memory lock: reading its
# command line or environment would block, its stat and descriptors do not.

# Uptime; every process but the kernel's own as "pid (comm) state ppid pgrp
# sid start"; the processes whose command line matches; the TCP sockets that
# listen or are connected.
sa() { # pattern
	(
		cd /proc || exit 1
		read -r L <uptime
		printf '%s' "$L"
		s
		T=$(cat [0-9]*/stat | sed -n -e '/) [A-Za-z] 2 0 0 /d' -e 's/^\([0-9]* (.*) [A-Za-z] [0-9]* [0-9-]* [0-9-]*\) \([^ ]* \)\{15\}\([0-9]*\) .*/\1 \3/p')
		printf '%s' "$T"
		s
		case $T in
		*') D '*)
			D=" $(printf '%s\n' "$T" | sed -n 's/^\([0-9]*\) (.*) D .*/\1/p' | tr '\n' ' ')"
			set -- "$1"
			P=$1
			shift
			for p in [0-9]*; do
				case $D in
				*" $p "*) ;;
				*) set -- "$@" "$p/cmdline" ;;
				esac
			done
			grep -lsaE -e "$P" "$@"
			;;
		*) grep -lsaE -e "$1" [0-9]*/cmdline ;;
		esac
		s
		sed -n 's/^ *[0-9]*: \([0-9A-F]*:[0-9A-F]*\) \([0-9A-F]*:[0-9A-F]*\) \(0[1A]\) [^ ]* [^ ]* [^ ]* *[0-9]* *[0-9]* \([0-9]*\) .*/\3 \1 \2 \4/p' net/tcp net/tcp6 | head -n 8000
	)
}

# Descriptors that matter: "@pid", then s<inode> of a socket, p<inode> of a
# pipe on descriptor 0, g<minor> of a GPU, w<path> and r<path> of a data file.
fd() { # all | pids
	(
		cd /proc || exit 1
		case $1 in
		all) set -- [0-9]*/fd ;;
		*)
			l=
			for p; do
				l="$l $p/fd"
			done
			set -- $l
			;;
		esac
		ls -ln self/task "$@" | sed -nE \
			-e '/^[0-9]+\/fd:$/{s/\/fd:$//;s/^/@/p;d;}' \
			-e 's/^l.* -> socket:\[([0-9]+)\]$/s\1/p;t' \
			-e 's/^l.* 0 -> pipe:\[([0-9]+)\]$/p\1/p;t' \
			-e 's/^l.* -> \/dev\/nvidia([0-9]+)$/g\1/p;t' \
			-e 's/^l.w.* [0-9]+ -> (\/.*\.(jsonl|ndjson|json|csv|tsv|parquet)(\.tmp|\.part)?( \(deleted\))?)$/w\1/p;t' \
			-e 's/^lr-.* [0-9]+ -> (\/.*\.(jsonl|ndjson|csv|tsv|parquet)( \(deleted\))?)$/r\1/p'
	)
}

# Owner and links of processes.
dl() { # pids
	l=
	for p; do
		l="$l /proc/$p /proc/$p/cwd /proc/$p/exe /proc/$p/fd/1 /proc/$p/fd/2"
	done
	ls -ldn $l
}

# Command line, control groups and chosen variables, a part each. The caller
# leaves out processes in state D.
dc() { # pids
	for p; do
		dd if=/proc/$p/cmdline bs=32768 count=1
		s
		while read -r L; do
			printf '%s\n' "$L"
		done </proc/$p/cgroup
		s
		tr '\000\n' '\n\002' </proc/$p/environ | grep -aE '^(PATH|PYTHONUNBUFFERED|CUDA_[A-Z_]*|NCCL_[A-Z_]*|SGLANG_[A-Z_]*|SGL_[A-Z_]*|VLLM_[A-Z_]*|OPENAI_BASE_URL|OPENAI_API_BASE|TZ|SSH_CONNECTION|PYTORCH_CUDA_ALLOC_CONF|((REQUEST|HTTP|OPENAI)_)?TIMEOUT|(LOCAL_|OMPI_COMM_WORLD_|PMIX?_)?RANK|SLURM_PROCID|RUNVIGIL_[A-Z_]*)='
		s
	done
}

users() { sed -n 's/^\([^:]*\):[^:]*:\([0-9]*\):.*/\2 \1/p' /etc/passwd | head -n 500; }

# The newest kernel lines that match, behind the name of their source.
kn() { # pattern
	if [ -z "$V" ]; then
		if dmesg >/dev/null; then
			V=dmesg
		elif [ -n "$(journalctl -k -b -q -n 1 --no-pager)" ]; then
			V=journalctl
		else
			V=none
		fi
	fi
	printf '%s\n' "$V"
	case $V in
	dmesg) dmesg | grep -aiE -e "$1" | tail -n 200 ;;
	journalctl) journalctl -k -b -q -n 5000 --no-pager -o short-monotonic | grep -aiE -e "$1" | tail -n 200 ;;
	*)
		V=
		dmesg 2>&1 | head -n 2
		;;
	esac
}

# The text of the tmux pane on a terminal.
pn() { # tty
	for f in /tmp/tmux-*/*; do
		[ -S "$f" ] || continue
		p=$(tmux -S "$f" list-panes -a -F '#{pane_tty} #{pane_id}' | sed -n "s,^$1 ,,p")
		if [ -n "$p" ]; then
			tmux -S "$f" capture-pane -p -J -t "$p" -S -500
			return
		fi
	done
	return 1
}
