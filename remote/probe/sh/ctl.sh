# Figures of the host, processes by number, and background jobs. All of it but
# info and the jobs is built-ins on /proc and control groups, which cannot block.

have() {
	at "$1"
	[ -n "$t" ] || t=$(command -v "$1") || t= # busybox may have it built in
	[ -n "$t" ] && printf 'tool %s %s\n' "$1" "$t"
}

info() {
	smi
	[ -n "$G" ] && printf 'tool nvidia-smi %s\n' "$G"
	for f in hostname osrelease random/boot_id; do
		L=
		read -r L </proc/sys/kernel/$f
		printf '%s %s\n' "${f##*/}" "$L"
	done
	L=
	read -r L </proc/uptime
	printf 'uptime %s\ndate %s\n' "$L" "$(date '+%s %z %Z')"
	printf 'uid %s\nuser %s\n' "$(id -u)" "$(id -un)"
	printf 'hz %s\npage %s\n' "$(getconf CLK_TCK)" "$(getconf PAGESIZE)"
	printf 'shell %s\n' "$(readlink /proc/$$/exe)"
	c=0
	while read -r L x; do
		case $L in
		cpu[0-9]*) c=$((c + 1)) ;;
		cpu) ;;
		*) break ;;
		esac
	done </proc/stat
	printf 'cpus %s\n' "$c"
	for t in curl wget python3 docker tmux journalctl dmesg stat dd wc grep sed find; do
		have "$t"
	done
	true
}

sys() {
	L=
	read -r L </proc/uptime
	printf 'uptime %s\n' "$L"
	read -r L </proc/loadavg
	printf 'loadavg %s\n' "$L"
	read -r L </proc/stat
	printf '%s\n' "$L"
	while read -r L; do
		case $L in
		MemTotal:* | MemFree:* | MemAvailable:* | Buffers:* | Cached:* | SwapTotal:* | SwapFree:*) printf '%s\n' "$L" ;;
		Shmem:*)
			printf '%s\n' "$L"
			break
			;;
		esac
	done </proc/meminfo
}

# The memory limits of the control groups above each process (0: this shell), as
# this mount shows them: where it begins below the root, as in a container, the
# upper part of the path is not there. The page cache is only asked of groups
# that have a limit, since the kernel has to add it up.
cg() {
	printf 'groups %s\n' "$*"
	for p; do
		q=$p
		[ "$p" = 0 ] && q=$$
		C=..
		while IFS=: read -r x k v; do
			case $k in
			memory | memory,* | *,memory | *,memory,*)
				C=$v
				D=/sys/fs/cgroup/memory m=limit_in_bytes u=usage_in_bytes t=total_
				break
				;;
			'')
				C=$v
				D=/sys/fs/cgroup m=max u=current t=
				;;
			esac
		done </proc/$q/cgroup
		case $C in
		*..*) continue ;;
		esac
		while :; do
			L=
			read -r L <"$D$C/memory.$m"
			case $L in
			'' | *[!0-9]* | ???????????????????*) ;;
			*)
				U=- a=0 i=0
				read -r U <"$D$C/memory.$u"
				while read -r k v; do
					case $k in
					${t}active_file) a=$v ;;
					${t}inactive_file) i=$v ;;
					esac
				done <"$D$C/memory.stat"
				printf 'group %s %s %s %s %s %s\n' "$p" "$L" "${U:--}" "$a" "$i" "$C"
				;;
			esac
			case $C in
			'' | /) break ;;
			esac
			C=${C%/*}
		done
	done
	true
}

# The stat line of each process that is there.
al() {
	for p; do
		L=
		while read -r x; do
			L="$L $x"
		done </proc/$p/stat
		[ -n "$L" ] && printf '%s\n' "${L# }"
	done
	true
}

# Bytes that each process has read from disk: its user's and root's to know.
rb() {
	for p; do
		L=
		while read -r k v; do
			case $k in
			read_bytes:)
				L=$v
				break
				;;
			esac
		done </proc/$p/io
		[ -n "$L" ] && printf 'read %s %s\n' "$p" "$L"
	done
	true
}

# The command line of a process that is not blocked in the kernel.
cl() {
	L=
	read -r L </proc/$1/stat
	case ${L##*) } in
	'' | D*) return 1 ;;
	esac
	dd if=/proc/$1/cmdline bs=65536 count=1
}

# The API key in its environment, for an engine that takes it from there.
ck() {
	tr '\000\n' '\n\002' </proc/$1/environ | sed -n 's/^VLLM_API_KEY=//p'
}

# Background jobs write to a file that has no name any more; slot g uses the
# descriptors 5 and 6, slot h 7 and 8.
js() { # slot, code
	eval "p=\$J$1"
	[ -z "$p" ] || return 9
	d=$(mktemp -d) || d=$(mktemp -d /dev/shm/tmp.XXXXXX) || return 8
	true >"$d/o" || return 8
	case $1 in
	g)
		exec 5<"$d/o" 6>"$d/o"
		rm -rf "$d"
		(eval "$2") >&6 2>&1 &
		Jg=$!
		;;
	h)
		exec 7<"$d/o" 8>"$d/o"
		rm -rf "$d"
		(eval "$2") >&8 2>&1 &
		Jh=$!
		;;
	esac
}

jp() { # slot
	eval "p=\$J$1"
	[ -n "$p" ] || return 9
	L=
	read -r L </proc/$p/stat
	L=${L##*) }
	case $L in
	'' | Z* | X*)
		wait "$p"
		printf 'done %s' "$?"
		s
		case $1 in
		g)
			Jg=
			head -c 1000000 <&5
			exec 5<&- 6>&-
			;;
		h)
			Jh=
			head -c 1000000 <&7
			exec 7<&- 8>&-
			;;
		esac
		;;
	*) printf 'run %s' "${L%% *}" ;;
	esac
}

jk() { # slot
	eval "p=\$J$1"
	[ -n "$p" ] && kill -9 "$p"
}
