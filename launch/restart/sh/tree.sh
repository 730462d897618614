# A lock is a link whose target names its owner, so that it never exists without
# one. A dead owner's is passed over by the next number; of two live ones the
# lower counts.
owner_lives() { # pid:start:boot+namespace:id:since:user, with :free behind one that was given up
	case $1 in *:free) return 1 ;; esac
	ow_pid=${1%%:*} ow=${1#*:}
	ow_start=${ow%%:*} ow=${ow#*:}
	[ "${ow%%:*}" = "$HERE" ] && number "$ow_pid" || return 1
	# Where others' processes are hidden, their locks count.
	[ -r "/proc/$ow_pid/stat" ] || [ -r /proc/1/stat ] || return 0
	lives "$ow_pid:$ow_start"
}
# counts LINK: whether a lock is to be heeded, with its number in LK_N and its
# target in LK_O. Anybody can put a link where every login can write: it counts if
# it is root's or this login's, for root also another's, and its owner's process is
# of the same user.
counts() {
	[ -h "$1" ] || return 1
	LK_N=${1##*.}
	case $LK_N in '' | 0* | *[!0-9]* | ??????????*) return 1 ;; esac
	LK_O=$(readlink "$1") || return 1
	case $LK_O in *[!A-Za-z0-9:._@+-]*) return 1 ;; esac
	case $1 in "$BASE"/*) return 0 ;; esac
	co_link=$(owner_of "$1")
	[ "$co_link" = 0 ] || [ "$co_link" = "$MYUID" ] || [ "$MYUID" = 0 ] || return 1
	co_pid=${LK_O%%:*}
	number "$co_pid" && [ -d "/proc/$co_pid" ] || return 0
	[ "$(owner_of "/proc/$co_pid")" = "$co_link" ]
}
owner_of() { ls -ldn "$1" 2>/dev/null | { read -r a b c d && echo "$c"; }; }
take() { # prefix: the link in TAKEN, false while another restart has it
	TAKEN= lk_tries=0
	while :; do
		lk_top=0 lk_busy=
		for lk in "$1".*; do
			[ "$lk" != "$TAKEN" ] && counts "$lk" || continue
			[ "$LK_N" -le "$lk_top" ] || lk_top=$LK_N
			owner_lives "$LK_O" || continue
			[ -n "$TAKEN" ] && [ "$LK_N" -gt "${TAKEN##*.}" ] || lk_busy=$LK_O
		done
		if [ -n "$lk_busy" ]; then
			[ -z "$TAKEN" ] || rm -f "$TAKEN"
			TAKEN=
			return 1
		fi
		[ -z "$TAKEN" ] || break
		[ "$MODE" != check ] || return 0
		# A number that another login occupies for nothing is passed over too.
		if ln -s "$ME:$HERE:$ID:$(date +%s):$WHO" "$1.$((lk_top + 1 + lk_tries))" 2>/dev/null; then
			TAKEN=$1.$((lk_top + 1 + lk_tries))
		else
			lk_tries=$((lk_tries + 1))
			[ $lk_tries -lt 50 ] || { lk_busy=0:0::unknown:0:unknown; return 1; }
			nap
		fi
	done
	# What the dead left goes, of other ports too; a lock that its owner gave up goes
	# with the owner.
	lk_all=$1
	[ "$1" != "$SHARED" ] || lk_all=${SHARED%-*}-
	for lk in "$lk_all"*.*; do
		[ "$lk" != "$TAKEN" ] && counts "$lk" || continue
		# Whether an owner in another namespace lives cannot be told from here.
		case $LK_O in *:"$HERE":*) ;; *:"$BOOTNOW+"*) continue ;; esac
		owner_lives "${LK_O%:free}" || rm -f "$lk" 2>/dev/null
	done
}
lock() { # false while another restart has it
	take "$BASE/lock" || return 1
	MYLOCK=$TAKEN
	[ -n "$SHARED" ] || return 0
	lk_old=$MYTURN
	if ! take "$SHARED"; then
		[ -z "$MYLOCK" ] || rm -f "$MYLOCK"
		MYLOCK=
		return 1
	fi
	MYTURN=$TAKEN
	[ "$TURN" != 0 ] || TURN=${MYTURN##*.}
	[ -z "$lk_old" ] || [ "$lk_old" = "$MYTURN" ] || rm -f "$lk_old"
}
# unlock: lets another restart begin. The node's lock stays, given up, until the
# script ends: a higher number than TURN then tells that another login took over.
unlock() {
	[ -z "$MYLOCK" ] || rm -f "$MYLOCK"
	MYLOCK=
	[ -n "$MYTURN" ] || return 0
	ln -s "$(readlink "$MYTURN"):free" "$MYTURN.free" 2>/dev/null && mv -f "$MYTURN.free" "$MYTURN" && return
	rm -f "$MYTURN"
	MYTURN=
}
# current: whether this restart is the newest, of this login and of all.
current() {
	[ "$(cat "$BASE/current" 2>/dev/null)" = "$ID" ] || return 1
	[ -n "$SHARED" ] && [ "$TURN" != 0 ] || return 0
	for cu in "$SHARED".*; do
		[ "$cu" != "$MYTURN" ] && counts "$cu" && [ "$LK_N" -gt "$TURN" ] || continue
		case $LK_O in *:"$HERE":*) return 1 ;; esac
	done
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
	# Who leads: what lives of TREE, and what still did at the last look, for its
	# children may have lost it since. A number of longer ago may be the session of
	# somebody else's by now, whose own leader is gone.
	gr_lead=" "
	while read -r gr_p gr_pp gr_pg gr_sid gr_s; do
		case $TREE in *" $gr_p:$gr_s "*) gr_lead="$gr_lead$gr_p:$gr_s " ;; esac
	done <<-END
		$SNAP
	END
	gr_live=$gr_lead
	for gr_id in $GROWN; do
		case $gr_lead in *" $gr_id "*) continue ;; esac
		case $TREE in *" $gr_id "*) ;; *) continue ;; esac
		case $NL$SNAP in *"$NL${gr_id%%:*} "*) continue ;; esac
		gr_lead="$gr_lead$gr_id "
	done
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
				gr_live="$gr_live$gr_p:$gr_s "
				gr_more=1
				;;
			esac
		done <<-END
			$SNAP
		END
	done
	GROWN=$gr_live
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

# again: whether somebody, a supervisor perhaps, has started the old command again:
# a process with the old command line that began after the old server was told to
# end and is not of this restart. AGAIN is its number.
again() {
	[ -n "$SUM" ] && [ -n "$ENDED" ] || return 1
	snap
	while read -r ag_p ag_pp ag_pg ag_sid ag_s; do
		[ -n "$ag_p" ] && [ "$ag_s" -ge "$ENDED" ] || continue
		case $TREE in *" $ag_p:$ag_s "*) continue ;; esac
		[ "$(cksum 2>/dev/null <"/proc/$ag_p/cmdline")" = "$SUM" ] || continue
		grep -qas "RUNVIGIL_START=$ID" "/proc/$ag_p/environ" && continue
		AGAIN="process $ag_p runs the old command again, started by process $ag_pp ($(tr -c 'A-Za-z0-9._:+-' ' ' 2>/dev/null <"/proc/$ag_pp/comm")): restart it with what supervises it"
		return 0
	done <<-END
		$SNAP
	END
	return 1
}
alone() { ! again || finish failed respawned "$AGAIN"; }
