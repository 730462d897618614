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

MYLOCK= MARK=
finish() { # state, why, text
	[ "$MODE" != check ] || exit 0
	rm -f "$D"/smi* "$D"/*.words "$D"/*.env "$D"/new.* "$D"/old.* "$D"/client.*
	rm -rf "$D/client.saved"
	[ -z "$MYLOCK" ] || rm -f "$MYLOCK"
	say "end state=$1${2:+ why=$2}${3:+ -- $3}"
	exit 0
}
refuse() { # why, text
	say "refused why=$1 -- $2"
	finish untouched "$1" "$2"
}

read -r BOOTNOW </proc/sys/kernel/random/boot_id
stat_of $$
ME=$$:$st_start
WHO=$(id -un 2>/dev/null || id -u)
[ "$MODE" = check ] || printf '%s\n' "$ME" >"$D/script" || exit 1

# The lock is a link whose target names its owner, so that it never exists
# without one. A dead owner's is passed over by the next number; of two live
# ones the lower counts.
owner_lives() { # pid:start:boot:id:since:user
	ow_pid=${1%%:*} ow=${1#*:}
	ow_start=${ow%%:*} ow=${ow#*:}
	[ "${ow%%:*}" = "$BOOTNOW" ] && lives "$ow_pid:$ow_start"
}
lock() { # false while another restart has it
	lk_tries=0
	while :; do
		lk_top=0 lk_busy=
		for lk in "$BASE"/lock.*; do
			[ -h "$lk" ] && [ "$lk" != "$MYLOCK" ] || continue
			lk_o=$(readlink "$lk") || continue
			lk_n=${lk##*.}
			[ "$lk_n" -le "$lk_top" ] || lk_top=$lk_n
			owner_lives "$lk_o" || continue
			[ -n "$MYLOCK" ] && [ "$lk_n" -gt "${MYLOCK##*.}" ] || lk_busy=$lk_o
		done
		if [ -n "$lk_busy" ]; then
			[ -z "$MYLOCK" ] || rm -f "$MYLOCK"
			MYLOCK=
			return 1
		fi
		[ -z "$MYLOCK" ] || break
		[ "$MODE" != check ] || return 0
		if ln -s "$ME:$BOOTNOW:$ID:$(date +%s):$WHO" "$BASE/lock.$((lk_top + 1))" 2>/dev/null; then
			MYLOCK=$BASE/lock.$((lk_top + 1))
		else
			lk_tries=$((lk_tries + 1))
			[ $lk_tries -lt 50 ] || { lk_busy=0:0::unknown:0:unknown; return 1; }
			nap
		fi
	done
	for lk in "$BASE"/lock.*; do
		[ "$lk" = "$MYLOCK" ] || owner_lives "$(readlink "$lk")" || rm -f "$lk"
	done
}
unlock() {
	[ -z "$MYLOCK" ] || rm -f "$MYLOCK"
	MYLOCK=
}
busy() { # says who has the lock
	bu_ifs=$IFS
	IFS=:
	set -- $lk_busy
	IFS=$bu_ifs
	say "busy owner=$1:$2 id=$4 since=$5 by=$6 -- a restart of $6 is under way"
}

# grow: adds to TREE whatever descends from it, or lives in a session or process
# group that one of it leads. Never pid 1, never this script. It is called
# before the first signal, for children lose their parents with it.
snap() {
	SNAP=
	for sn in /proc/[0-9]*; do
		sn=${sn#/proc/}
		stat_of "$sn" || continue
		SNAP="$SNAP$sn $st_ppid $st_pgrp $st_sid $st_start$NL"
	done
}
grow() {
	snap
	# A number of TREE that now belongs to another process leads nothing of ours.
	gr_lead=$TREE
	while read -r gr_p gr_pp gr_pg gr_sid gr_s; do
		case $TREE in
		*" $gr_p:$gr_s "*) ;;
		*" $gr_p:"*) gr_lead=$(printf '%s' "$gr_lead" | sed "s/ $gr_p:[0-9]* / /") ;;
		esac
	done <<-END
		$SNAP
	END
	gr_more=1
	while [ $gr_more = 1 ]; do
		gr_more=0
		while read -r gr_p gr_pp gr_pg gr_sid gr_s; do
			case $gr_p in '' | 1 | $$) continue ;; esac
			case $TREE in *" $gr_p:$gr_s "*) continue ;; esac
			case $gr_lead in
			*" $gr_pp:"* | *" $gr_pg:"* | *" $gr_sid:"*)
				TREE="$TREE$gr_p:$gr_s "
				gr_lead="$gr_lead$gr_p:$gr_s "
				gr_more=1
				;;
			esac
		done <<-END
			$SNAP
		END
	done
}
left() {
	LEFT=
	for lf in $TREE; do
		lives "$lf" && LEFT="$LEFT $lf"
	done
	[ -n "$LEFT" ]
}
# marked ID: adds to TREE what was started with that id in its environment: a
# server that dies early leaves children that nobody has seen.
marked() {
	ma_list=$(grep -las "RUNVIGIL_START=$1" /proc/[0-9]*/environ 2>/dev/null)
	for ma in $ma_list; do
		ma=${ma#/proc/}
		ma=${ma%/environ}
		stat_of "$ma" && [ "$ma" != 1 ] && [ "$ma" != $$ ] || continue
		case $TREE in *" $ma:$st_start "*) ;; *) TREE="$TREE$ma:$st_start " ;; esac
	done
}
signal() { # SIG, processes: each looked at again just before
	sg=$1
	shift
	for sg_id; do
		lives "$sg_id" && kill "-$sg" "${sg_id%%:*}" 2>/dev/null
	done
}
list() { li=$(printf ',%s' "$@"); printf '%s' "${li#,}"; }
wait_left() { # seconds: true once nothing of TREE lives
	clock
	wl_end=$((UP + $1)) wl_grow=$UP
	while left; do
		clock
		[ "$UP" -lt "$wl_end" ] || return 1
		if [ "$UP" -gt "$wl_grow" ]; then
			wl_grow=$UP
			grow
		fi
		nap
	done
}
# end_tree SECONDS: TERM to the root, then KILL to what is left of TREE.
end_tree() {
	signal TERM "$ROOT"
	if ! wait_left "$1"; then
		if ! lives "$ROOT"; then
			signal TERM $LEFT
			wait_left 2
		fi
		grow
		left
		if [ -n "$LEFT" ]; then
			say "kill set=$(list $LEFT)"
			signal KILL "$ROOT" $LEFT
			clock
			et_end=$((UP + KILLWAIT))
			while ! wait_left 2; do
				clock
				[ "$UP" -lt "$et_end" ] || return 1
				grow
				left
				signal KILL $LEFT
			done
		fi
	fi
	# What they left behind between two looks.
	grow
	left || return 0
	signal KILL $LEFT
	wait_left "$KILLWAIT"
}
stuck() {
	for sk in $LEFT; do
		stat_of "${sk%%:*}" || continue
		sk_w=
		read -r sk_w 2>/dev/null <"/proc/${sk%%:*}/wchan"
		printf 'pid %s state %s %s; ' "${sk%%:*}" "$st_state" "$sk_w"
	done
}

# Sockets come from the kernel's own table: no tool is needed, and a port with
# SO_REUSEPORT shows too.
rows() { # port, state: sets ROWS
	ROWS=$(cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep -c "$(printf '^ *[0-9]*: [0-9A-F]*:%04X [0-9A-F]*:[0-9A-F]* %s ' "$1" "$2")")
}
listens() {
	[ "$1" != 0 ] || return 1
	rows "$1" 0A
	[ "$ROWS" -gt 0 ]
}
holder() { # port: who listens, for people
	ho_hex=$(printf '%04X' "$1")
	ho_found=$(cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | sed -n "s/^ *[0-9]*: [0-9A-F]*:$ho_hex [0-9A-F]*:[0-9A-F]* 0A [^ ]* [^ ]* [^ ]* *[0-9]* *[0-9]* \([0-9]*\) .*/\1/p")
	for ho in /proc/[0-9]*; do
		ho_l=$(ls -l "$ho/fd" 2>/dev/null)
		for ho_i in $ho_found; do
			case $ho_l in *"socket:[$ho_i]"*) printf 'pid %s ' "${ho#/proc/}" ;; esac
		done
	done
}

# nvidia-smi may hang in the driver, where no signal reaches it: it is never
# waited for.
smi() { # arguments: the answer in FOLDER/smi; false where there is none
	command -v nvidia-smi >/dev/null 2>&1 || return 1
	rm -f "$D/smi.rc"
	(
		nvidia-smi "$@" --format=csv,noheader,nounits >"$D/smi" 2>/dev/null
		echo $? >"$D/smi.rc"
	) >/dev/null 2>&1 </dev/null &
	clock
	smi_end=$((UP + 15))
	until [ -s "$D/smi.rc" ]; do
		clock
		[ "$UP" -lt "$smi_end" ] || return 1
		nap
	done
	read -r smi_rc <"$D/smi.rc"
	[ "$smi_rc" = 0 ]
}
number() { case $1 in '' | *[!0-9]*) return 1 ;; esac; }

# gpu_before: notes for each GPU of the server how far its memory must fall, as
# "uuid limit before total how" in GPUS. With our pids among those that the
# tool lists (it shows the host's numbers inside a container) the limit is what
# the others hold; else it is nearly nothing, or stable and enough (how=guess).
gpu_before() {
	GPUS= GPU_SEEN=
	smi --query-gpu=uuid,memory.used,memory.total || return
	GPU_SEEN=1
	gb_all=$(sed 's/,//g' "$D/smi") gb_apps=
	smi --query-compute-apps=pid,used_memory,gpu_uuid && gb_apps=$(sed 's/,//g' "$D/smi")
	gb_ours=
	while read -r gb_p gb_m gb_u; do
		case $TREE in *" $gb_p:"*) number "$gb_m" && gb_ours="$gb_ours $gb_u=$gb_m" ;; esac
	done <<-END
		$gb_apps
	END
	while read -r gb_u gb_used gb_total; do
		number "$gb_used" && number "$gb_total" || continue
		if [ -n "$gb_ours" ]; then
			gb_sum=0
			for gb in $gb_ours; do
				[ "${gb%=*}" != "$gb_u" ] || gb_sum=$((gb_sum + ${gb#*=}))
			done
			[ $gb_sum -gt 0 ] || continue
			gb_limit=$((gb_used - gb_sum + 1024))
			[ $gb_limit -ge 1024 ] || gb_limit=1024
			GPUS="$GPUS$gb_u $gb_limit $gb_used $gb_total pids$NL"
			continue
		fi
		gb_limit=$((gb_total * 3 / 100))
		[ $gb_limit -ge 1024 ] || gb_limit=1024
		[ "$gb_used" -le $gb_limit ] || GPUS="$GPUS$gb_u $gb_limit $gb_used $gb_total guess$NL"
	done <<-END
		$gb_all
	END
}
# gpu_wait: until the memory of those GPUs is free; false where it stays held.
gpu_wait() {
	if [ -z "$GPU_SEEN" ]; then
		say "note -- GPU memory was not watched: nvidia-smi is absent or does not answer"
		return
	fi
	[ -n "$GPUS" ] || return 0
	clock
	gw_end=$((UP + GPUWAIT)) gw_last= gw_same=0 gw_said=
	while :; do
		if smi --query-gpu=uuid,memory.used; then
			gw_now=$(sed 's/,//g' "$D/smi") gw_held= gw_enough=1 gw_used=
			while read -r gw_u gw_limit gw_before gw_total gw_how; do
				[ -n "$gw_u" ] || continue
				gw_m=${gw_now#*"$gw_u "}
				gw_m=${gw_m%%"$NL"*}
				number "$gw_m" || gw_m=$gw_total
				gw_used="$gw_used,$gw_m"
				[ "$gw_m" -le "$gw_limit" ] || gw_held="$gw_held $gw_u"
				[ $((gw_total - gw_m)) -ge $((gw_total * NEEDPCT / 100)) ] && [ $gw_how = guess ] || gw_enough=0
			done <<-END
				$GPUS
			END
			gw_used=${gw_used#,}
			if [ -z "$gw_held" ]; then
				say "gpu-free used=$gw_used"
				return 0
			fi
			if [ "$gw_used" = "$gw_last" ]; then gw_same=$((gw_same + 1)); else gw_same=0; fi
			gw_last=$gw_used
			if [ $gw_same -ge 5 ] && [ $gw_enough = 1 ]; then
				say "gpu-free used=$gw_used -- other processes hold the rest"
				return 0
			fi
			[ -n "$gw_said" ] || say "gpu-wait used=$gw_used"
			gw_said=1
		fi
		clock
		[ "$UP" -lt "$gw_end" ] || return 1
		sleep 1
	done
}
gpu_holders() {
	smi --query-compute-apps=pid,used_memory && sed 's/^\([0-9]*\), *\(.*\)$/pid \1 holds \2 MiB;/' "$D/smi" | tr '\n' ' '
	ls -l /proc/[0-9]*/fd 2>/dev/null | sed -n -e '/^\/proc\//h' -e '/-> \/dev\/nvidia[0-9]/{g;s|/proc/\([0-9]*\)/fd:|\1|p;}' | sort -u | tr '\n' ' '
}

# keep PID FOLDER: saves a process's launch; unfold FOLDER NAME makes of it
# NAME.env and NAME.words, which give the new one what must not leave the node.
keep() {
	mkdir -p "$D/$2" && cat "/proc/$1/cmdline" >"$D/$2/cmdline" || return 1
	cat "/proc/$1/environ" >"$D/$2/environ" 2>/dev/null
	return 0
}
unfold() {
	tr '\000\n' '\n\001' <"$D/$1/environ" 2>/dev/null | sed -n \
		-e '/^PWD=/d' -e '/^OLDPWD=/d' -e '/^SHLVL=/d' -e '/^_=/d' -e '/^TERM=/d' -e '/^TMUX=/d' -e '/^TMUX_PANE=/d' \
		-e '/^STY=/d' -e '/^WINDOW=/d' -e '/^DISPLAY=/d' -e '/^LS_COLORS=/d' -e '/^SSH_/d' \
		-e '/^U\{0,1\}ID=/d' -e '/^EUID=/d' -e '/^PPID=/d' -e '/^SHELLOPTS=/d' -e '/^BASHOPTS=/d' -e '/^RUNVIGIL_START=/d' \
		-e "s/'/'\\\\''/g" -e "s/^\([A-Za-z_][A-Za-z0-9_]*\)=\(.*\)\$/export \1='\2'/p" | tr '\001' '\n' >"$D/$2.env"
	uf_n=0
	tr '\000\n' '\n\001' <"$D/$1/cmdline" | sed -e "s/'/'\\\\''/g" -e "s/^/'/" -e "s/\$/'/" | while IFS= read -r uf; do
		printf 'rv_word_%d=%s\n' $uf_n "$uf"
		uf_n=$((uf_n + 1))
	done | tr '\001' '\n' >"$D/$2.words"
}

# ask_parser: has the engine's own parser read the new arguments, with --help
# behind them and no GPU in sight.
ask_parser() {
	(become check "$D/check.out"; echo $? >"$D/rc.check") >/dev/null 2>&1 </dev/null &
	clock
	ap_end=$((UP + 20))
	until [ -s "$D/rc.check" ]; do
		clock
		if [ "$UP" -ge "$ap_end" ]; then
			read -r ROOT <"$D/pid.check" && TREE=" $ROOT " && grow && signal KILL $TREE
			say "note -- the engine's own parser did not answer in 20 s; the arguments were not checked by it"
			return
		fi
		nap
	done
	read -r ap <"$D/rc.check"
	case $ap in
	0) ;;
	2) say "refused why=parser -- $(tail -n 1 "$D/check.out" | cut -c 1-300)" ;;
	126 | 127) say "refused why=command -- $(tail -n 1 "$D/check.out" | cut -c 1-300)" ;;
	*) say "note -- the engine's own parser ended with $ap; the arguments were not checked by it" ;;
	esac
}

# ask PATH BODY: one request to the old server from here, with its key read
# from a file.
ask() {
	as_url=http://127.0.0.1:$PORT$1
	if command -v curl >/dev/null 2>&1; then
		curl -s -o /dev/null -m 10 -H 'Content-Type: application/json' ${AUTH:+-H "@$AUTH"} -d "$2" "$as_url"
	elif command -v python3 >/dev/null 2>&1; then
		python3 - "$as_url" "$2" "${AUTH:-}" <<-'END'
			import sys, urllib.request
			head = {"Content-Type": "application/json"}
			if sys.argv[3]:
			    name, _, value = open(sys.argv[3]).read().strip().partition(": ")
			    head[name] = value
			urllib.request.urlopen(urllib.request.Request(sys.argv[1], sys.argv[2].encode(), head), timeout=10)
		END
	else
		return 127
	fi
}

launch() { # NAME
	la_size=0
	[ ! -f "$LOG" ] || la_size=$(ls -ln "$LOG" | { read -r a b c d e f; echo "$e"; })
	printf '\n%s%s ====\n' "$SEPARATOR" "$ID" >>"$LOG" || return 1
	rm -f "$D/pid.$1" "$D/rc.$1" "$D/lost"
	say "start offset=$la_size launch=$1 -- $LOG"
	$SETSID $SH "$D/restart.sh" wrap "$D" "$1" "$LOG" </dev/null >/dev/null 2>&1 &
	clock
	la_end=$((UP + 20))
	until [ -s "$D/pid.$1" ]; do
		clock
		[ "$UP" -lt "$la_end" ] || return 1
		nap
	done
	read -r NEW <"$D/pid.$1"
	ROOT=$NEW TREE=" $NEW "
	say "started pid=$NEW port=$NEWPORT launch=$1"
	[ ! -s "$D/lost" ] || say "note -- limits that this login cannot give: $(tr '\n' ';' <"$D/lost")"
}
start_client() {
	[ "$CLIENT" = restart ] && [ -f "$D/client.sh" ] || return 0
	rm -f "$D/pid.client"
	(become client "$CLIENTLOG") >/dev/null 2>&1 </dev/null &
	clock
	sc_end=$((UP + 10))
	until [ -s "$D/pid.client" ]; do
		clock
		[ "$UP" -lt "$sc_end" ] || { say "note -- the client could not be started"; return; }
		nap
	done
	read -r sc <"$D/pid.client"
	say "client pid=$sc"
}
current() { [ "$(cat "$BASE/current" 2>/dev/null)" = "$ID" ]; }

# watch NAME: until the new server has opened its port or has ended. The lock is
# free meanwhile, so that a start that goes wrong can be replaced at any time.
watch() {
	clock
	wa_grow=0 wa_until= wa_name=$1
	while :; do
		if [ -s "$D/rc.$wa_name" ]; then
			grow
			marked "$ID-$wa_name"
			grow
			left
			if [ -n "$LEFT" ]; then
				say "kill set=$(list $LEFT) -- left behind by the server that ended"
				signal KILL $LEFT
				wait_left "$KILLWAIT"
			fi
			return 1
		fi
		current || finish running superseded "another restart has taken over"
		clock
		if [ "$UP" -gt "$wa_grow" ]; then
			wa_grow=$((UP + 2))
			grow
		fi
		if [ -z "$wa_until" ] && { [ "$NEWPORT" = 0 ] || listens "$NEWPORT"; }; then
			[ "$NEWPORT" = 0 ] || say "listening port=$NEWPORT"
			start_client
			wa_until=$UP
			[ "$BACK" = 0 ] || wa_until=$((UP + GRACE))
		fi
		[ -z "$wa_until" ] || [ "$UP" -lt "$wa_until" ] || return 0
		nap
	done
}

lock || { busy; finish untouched busy; }
say "begin id=$ID op=$OP by=$WHO boot=$BOOTNOW pid=$P:$S"

# Before any signal: is it still what was confirmed, and can the new one start?
[ "$BOOT" = "$BOOTNOW" ] || refuse rebooted "the node was restarted since the plan was made"
if [ "$OP" != start ]; then
	lives "$P:$S" || refuse gone "process $P is no longer the confirmed one"
	[ -z "$SUM" ] || [ "$(cksum <"/proc/$P/cmdline")" = "$SUM" ] || refuse changed "process $P has another command line than the confirmed one"
	kill -0 "$P" 2>/dev/null || refuse permission "signals to process $P are not permitted"
	[ "$P" != 1 ] || refuse pid-1 "it is the first process of its container"
fi
case $OP in
restart | start)
	if [ "$OP" = start ] || [ "$NEWPORT" != "$PORT" ]; then
		listens "$NEWPORT" && refuse port-held "port $NEWPORT is taken: $(holder "$NEWPORT")"
	fi
	mkdir -p "${LOG%/*}" 2>/dev/null
	(: >>"$LOG") 2>/dev/null || refuse log "the log cannot be written"
	for path in "$LOG" "$D"; do
		free=$(df -Pk "$path" 2>/dev/null | { read -r a; read -r a b c d e; echo "$d"; })
		number "$free" && [ "$free" -lt 65536 ] && refuse disk "less than 64 MiB are free for the log or the restart's files"
	done
	if [ "$HOSTKB" -gt 0 ]; then
		while read -r a b c; do
			[ "$a" != MemAvailable: ] || [ "$b" -ge "$HOSTKB" ] || refuse memory "the host has too little memory for the cache of the new launch"
		done </proc/meminfo
	fi
	;;
esac
if [ "$MODE" = check ]; then
	for path in "$D"/path.*; do
		[ -f "$path" ] || continue
		IFS= read -r a <"$path"
		[ -e "$a" ] || say "refused why=path -- $a does not exist on the node"
	done
	if [ -f "$D/check.sh" ]; then
		if [ -z "$SAVED" ]; then keep "$P" saved; else cp -R "$BASE/$SAVED/saved" "$D/"; fi
		[ ! -d "$D/saved" ] || unfold saved check
		ask_parser
	fi
	exit 0
fi
printf '%s\n' "$ID" >"$BASE/current"

if [ -n "$SAVED" ]; then
	cp -R "$BASE/$SAVED/saved" "$BASE/$SAVED/identify" "$D/" 2>/dev/null ||
		refuse saved "the files of restart $SAVED are gone, and with them the launch's secrets"
elif [ "$OP" = restart ] || [ "$OP" = stop ]; then
	keep "$P" saved || refuse read "the launch of process $P cannot be read"
	MARK=$(tr '\000' '\n' <"$D/saved/environ" 2>/dev/null | sed -n 's/^RUNVIGIL_START=\([0-9a-z-]*\)$/\1/p')
	[ ! -f "$D/identify.sh" ] || $SH "$D/identify.sh" >"$D/identify" 2>/dev/null
	say "identify pid=$P:$S"
fi
if [ "$OP" = restart ] || [ "$OP" = start ]; then
	if [ -d "$D/saved" ]; then
		unfold saved new
		cp "$D/new.env" "$D/old.env" && cp "$D/new.words" "$D/old.words"
	fi
	if [ -n "$CLIENTID" ] && [ "$CLIENT" = restart ] && keep "${CLIENTID%%:*}" client.saved; then
		unfold client.saved client
	fi
fi

# Stop.
stop_server() {
	TREE=" $P:$S " ROOT=$P:$S
	[ "$OP" = end ] || grow
	if [ -n "$MARK" ] && [ "$OP" != end ]; then
		marked "$MARK"
		grow
	fi
	gpu_before
	st_tree=$TREE
	if [ "$CLIENT" != keep ] && [ -n "$CLIENTS" ]; then
		TREE=" $CLIENTS " ROOT=
		say "client-stop set=$(list $CLIENTS)"
		signal TERM $CLIENTS
		if ! wait_left "$TERMWAIT"; then
			signal KILL $LEFT
			wait_left "$KILLWAIT" || finish failed client-unkillable "$(stuck)"
		fi
		say client-gone
		TREE=$st_tree ROOT=$P:$S
	fi
	if [ "$DRAIN" -gt 0 ]; then
		say "drain for=$DRAIN"
		clock
		dr_end=$((UP + DRAIN))
		while rows "$PORT" 01 && [ "$ROWS" -gt 0 ] && [ "$UP" -lt $dr_end ] && lives "$ROOT"; do
			sleep 1
			clock
		done
		say "drained left=$ROWS"
	fi
	if [ "$ABORT" = 1 ] && [ "$CLIENT" != keep ]; then
		rows "$PORT" 01
		ask /abort_request '{"abort_all": true, "rid": ""}' >/dev/null 2>&1
		say "abort rc=$? open=$ROWS"
	fi
	[ "$OP" = end ] || grow
	say "term set=$P:$S tree=$(list $TREE)"
	end_tree "$TERMWAIT" || finish failed unkillable "cannot be ended: $(stuck)"
	say stopped
	[ "$OP" != end ] || finish down
	if listens "$PORT"; then
		say "port-wait port=$PORT"
		clock
		pw_end=$((UP + PORTWAIT))
		while listens "$PORT"; do
			clock
			[ "$UP" -lt $pw_end ] || finish failed port-held "port $PORT is still taken by another process: $(holder "$PORT")"
			nap
		done
	fi
	say "port-free port=$PORT"
	gpu_wait || finish failed gpu-held "GPU memory is still held though nothing of the server lives: free it on the host. $(gpu_holders)"
}
[ "$OP" = start ] || stop_server

# What earlier restarts left goes now: nothing of theirs lives any more.
for old in "$BASE"/[0-9]*; do
	[ "$old" != "$D" ] || continue
	o= t=
	read -r o 2>/dev/null <"$old/script"
	lives "${o:-0:0}" && continue
	# Whoever was told that we are busy may still be reading it.
	t=$(tail -n 1 "$old/journal" 2>/dev/null)
	case $t in *" end state=untouched"*) number "${t%% *}" && [ $(($(date +%s) - ${t%% *})) -lt 30 ] && continue ;; esac
	rm -rf "$old"
done
[ "$OP" != stop ] || finish down

# Start. The port is looked at again: at most one server, whoever starts it.
listens "$NEWPORT" && finish failed port-held "port $NEWPORT was taken meanwhile, perhaps the server is supervised and came back: $(holder "$NEWPORT")"
launch new || finish failed start "the new server could not be started"
unlock
if watch new; then finish running; fi
if [ "$BACK" = 0 ]; then finish failed exited "the new server ended before it served"; fi
lock || finish failed superseded "another restart has taken over"
current || finish failed superseded "another restart has taken over"
say "back -- the last good launch is started again"
gpu_wait || finish failed gpu-held "GPU memory is still held: free it on the host. $(gpu_holders)"
launch old || finish failed start "the last good launch could not be started"
BACK=0
unlock
if watch old; then finish running back; fi
finish failed exited "the last good launch ended before it served"
