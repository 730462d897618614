# Stops and starts one server for runvigil, and runs to its end whatever becomes
# of the link. MODE is run, check (say what stands against it, do nothing), wrap or
# exec; FOLDER holds plan, new.sh and the rest.
# docs/security.md lists what it leaves behind. For dash, bash and busybox ash.
MODE=$1 D=$2
umask 077
NL='
'

# A process is pid:start everywhere, so that a number which was given to another
# process is never signalled. st_* are of the last stat_of; the name of a
# process may hold anything, also newlines and parentheses.
stat_of() {
	st_line=
	[ -r "/proc/$1/stat" ] || return 1
	while IFS= read -r st_part || [ -n "$st_part" ]; do
		st_line="$st_line$st_part "
		st_part=
	done 2>/dev/null <"/proc/$1/stat"
	st_line=${st_line##*) }
	set -- $st_line
	[ $# -ge 20 ] || return 1
	st_state=$1 st_ppid=$2 st_pgrp=$3 st_sid=$4 st_threads=${18} st_start=${20}
}

# A zombie whose threads still run holds descriptors and GPU memory: it lives.
lives() {
	stat_of "${1%%:*}" || return 1
	[ "$st_start" = "${1#*:}" ] || return 1
	case $st_state in
	X | x) return 1 ;;
	Z) [ "$st_threads" -gt 1 ] || return 1 ;;
	esac
}

nap() { sleep 0.2 2>/dev/null || sleep 1; }
clock() { read -r UP st_part </proc/uptime && UP=${UP%%.*}; }

# exec: becomes the server. It runs without the script's environment, and the
# variables of the server are read last, so that they cannot change ours.
if [ "$MODE" = exec ]; then
	stat_of $$
	printf '%s:%s\n' "$$" "$st_start" >"$D/pid.$3.new" && mv "$D/pid.$3.new" "$D/pid.$3" || exit 125
	lim() { # name in prlimit, letter in ulimit, divisor, soft, hard
		case $4 in unlimited) rv_s=$4 ;; *) rv_s=$(($4 / $3)) ;; esac
		case $5 in unlimited) rv_h=$5 ;; *) rv_h=$(($5 / $3)) ;; esac
		prlimit --pid $$ "--$1=$4:$5" 2>/dev/null && return
		[ -n "$2" ] || return
		(ulimit -H "$2" "$rv_h") 2>/dev/null && ulimit -H "$2" "$rv_h" 2>/dev/null
		(ulimit -S "$2" "$rv_s") 2>/dev/null && ulimit -S "$2" "$rv_s" 2>/dev/null
		[ "$(ulimit -S "$2")" = "$rv_s" ] || printf '%s is %s, not %s\n' "$1" "$(ulimit -S "$2")" "$rv_s" >>"$D/lost"
	}
	. "$D/$3.place"
	set -- "$D/$3"
	[ ! -s "$1.env" ] || . "$1.env"
	[ ! -s "$1.words" ] || . "$1.words"
	. "$1.sh"
	exit 127
fi

LC_ALL=C
export LC_ALL
trap '' HUP INT PIPE
BASE=${D%/*}
J=$D/journal
[ "$MODE" != check ] || J=/dev/stdout
say() { printf '%s %s\n' "$(date +%s)" "$*" >>"$J"; }
. "$D/plan"
SETSID=setsid
command -v setsid >/dev/null 2>&1 || SETSID=
# Whoever is started in the background of a shell is deaf to INT and QUIT.
SIGNALS=
env --default-signal=INT,QUIT,PIPE true 2>/dev/null && SIGNALS=--default-signal=INT,QUIT,PIPE

# become NAME LOG: runs NAME.sh in a session of its own, and waits for it.
become() {
	if [ -s "$D/$1.env" ]; then
		$SETSID env -i $SIGNALS "PATH=$PATH" $SH "$D/restart.sh" exec "$D" "$1" >>"$2" 2>&1 </dev/null
	else
		(
			unset LC_ALL SSH_CLIENT SSH_CONNECTION SSH_TTY SSH_AUTH_SOCK SSH_ORIGINAL_COMMAND OLDPWD
			exec $SETSID env $SIGNALS $SH "$D/restart.sh" exec "$D" "$1" >>"$2" 2>&1 </dev/null
		)
	fi
}

# wrap: waits for the server and notes how it ended.
if [ "$MODE" = wrap ]; then
	become "$3" "$4"
	rc=$?
	how=
	[ $rc -gt 128 ] && how=" -- ended by signal $((rc - 128))"
	read -r NEW <"$D/pid.$3" || NEW=0:0
	say "exited pid=$NEW rc=$rc$how" 2>/dev/null
	printf '%s\n' "$rc" >"$D/rc.$3" 2>/dev/null
	exit 0
fi

MYLOCK= MYTURN= TURN=0 MARK= ENDED= GROWN=
finish() { # state, why, text
	[ "$MODE" != check ] || exit 0
	rm -f "$D"/smi* "$D"/*.words "$D"/*.env "$D"/new.* "$D"/old.* "$D"/client.*
	rm -rf "$D/client.saved" "$D/key"
	[ -z "$MYLOCK" ] || rm -f "$MYLOCK"
	[ -z "$MYTURN" ] || rm -f "$MYTURN"
	say "end state=$1${2:+ why=$2}${3:+ -- $3}"
	exit 0
}
refuse() { # why, text
	say "refused why=$1 -- $2"
	finish untouched "$1" "$2"
}

read -r BOOTNOW </proc/sys/kernel/random/boot_id
# Process numbers mean something within one boot and one PID namespace only.
NAMESPACE=$(readlink /proc/self/ns/pid | tr -cd 0-9)
HERE=$BOOTNOW+$NAMESPACE
stat_of $$
ME=$$:$st_start
MYUID=$(id -u)
WHO=$(id -un 2>/dev/null | tr -c 'A-Za-z0-9._@+\n-' _)
[ -n "$WHO" ] || WHO=$MYUID
# The lock of the node is for the port that is served: two logins may both be
# allowed to signal its server. It lies where every login can write and only the
# owner can remove.
SHARED=
for path in /dev/shm /tmp; do
	[ "$OP" != end ] && [ -z "$SHARED" ] && [ -d "$path" ] && [ -k "$path" ] && [ -w "$path" ] || continue
	SHARED=$path/runvigil-$NEWPORT.lock
	[ "$PORT" = 0 ] || SHARED=$path/runvigil-$PORT.lock
done
[ "$MODE" = check ] || printf '%s\n' "$ME" >"$D/script" || exit 1
