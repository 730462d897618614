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
