package agent

import (
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/executor"
	"github.com/drover-run/drover/executor/agent/registration"
	"github.com/drover-run/drover/run"
)

// statesByRegion lists all states, in the order of a task's life cycle.
var statesByRegion = [regionCount][]state{
	regionProgress: {
		stateNew, stateClaimed, stateClaimSent, stateStarting, stateRequeueUnrecorded,
		stateLaunched, stateEndUnrecorded, stateEnded, stateClosed,
	},
	regionToken:     {tokenNone, tokenValid, tokenRefused, tokenAnswered},
	regionOwnership: {keyActive, keyRetired, keyClaimClosed, keyErased, keyReleased},
	regionStop:      {stopNone, stopRequested, stopForced},
	regionSlot:      {slotNone, slotUsed, slotWaiting},
}

// recordedStates are the states of progress on disk, by the state in memory.
var recordedStates = map[state][]state{
	stateNew:               {stateNew},
	stateClaimed:           {stateClaimed},
	stateClaimSent:         {stateClaimed},
	stateStarting:          {stateStarting},
	stateRequeueUnrecorded: {stateNew, stateClaimed, stateStarting},
	stateLaunched:          {stateLaunched},
	stateEndUnrecorded:     {stateClaimed, stateStarting, stateLaunched},
	stateEnded:             {stateEnded},
	stateClosed:            {stateClosed},
}

// combinations returns all combinations of states.
func combinations() []states {
	all := []states{{}}
	for r, list := range statesByRegion {
		var longer []states
		for _, s := range all {
			for _, one := range list {
				s[r] = one
				longer = append(longer, s)
			}
		}
		all = longer
	}
	return all
}

// reachable returns the states that a task can reach, from those of a new key and
// from those of each entry that a journal may have.
func reachable(m machine) map[states]bool {
	found := map[states]bool{}
	var queue []states
	add := func(s states) {
		if !found[s] {
			found[s] = true
			queue = append(queue, s)
		}
	}
	add(initialStates())
	for _, recorded := range []state{stateClaimed, stateStarting, stateLaunched, stateEnded, stateClosed} {
		for _, e := range []entry{{}, {record: record{Token: []byte("t")}}, {record: record{Token: []byte("t"), Answered: true}}} {
			if e.State = recorded; !e.Answered || recorded == stateEnded || recorded == stateClosed {
				add(statesOf(&e))
			}
		}
	}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		for e := range m {
			if next, err := m.next(s, e); err == nil {
				add(next)
			}
		}
	}
	return found
}

func TestTransitions_rows(t *testing.T) {
	t.Parallel()
	for _, row := range transitions() {
		require.NotEmpty(t, row.from, "%v", row)
		r := row.from[0].region()
		for _, s := range row.from {
			require.Contains(t, statesByRegion[r], s, "%v", row)
		}
		if row.to != unchanged {
			require.Contains(t, statesByRegion[r], row.to, "%v", row)
		}
		for _, s := range row.when {
			require.Contains(t, statesByRegion[s.region()], s, "%v", row)
		}
	}
}

func TestTransitions_are_unambiguous(t *testing.T) {
	t.Parallel()
	rows := transitions()
	for _, s := range combinations() {
		matched := map[event][regionCount]int{}
		for _, row := range rows {
			if r := row.from[0].region(); slices.Contains(row.from, s[r]) && s.meet(row.when) {
				n := matched[row.on]
				n[r]++
				require.LessOrEqual(t, n[r], 1, "%s in the states %s", row.on, s)
				matched[row.on] = n
			}
		}
	}
}

func TestTransitions_reach_every_state(t *testing.T) {
	t.Parallel()
	m := newMachine()
	seen, fired := map[state]bool{}, map[event]bool{}
	for s := range reachable(m) {
		for _, one := range s {
			seen[one] = true
		}
		for e := range m {
			if _, err := m.next(s, e); err == nil {
				fired[e] = true
			}
		}
	}
	for _, list := range statesByRegion {
		for _, s := range list {
			require.True(t, seen[s], "%q is never reached", s)
		}
	}
	require.Len(t, fired, len(m), "an event is never legal")
}

// The states on disk change in these ways only. The format of the journal depends on
// them: an older or newer process continues from any of them.
func TestTransitions_of_the_journal(t *testing.T) {
	t.Parallel()
	got := map[state]map[state]bool{}
	for _, row := range transitions() {
		if row.to == unchanged || row.from[0].region() != regionProgress || len(recordedStates[row.to]) != 1 {
			continue // not recorded
		}
		for _, from := range row.from {
			for _, before := range recordedStates[from] {
				if after := recordedStates[row.to][0]; before != after {
					if got[before] == nil {
						got[before] = map[state]bool{}
					}
					got[before][after] = true
				}
			}
		}
	}
	list := map[state][]state{}
	for from, to := range got {
		list[from] = slices.Sorted(maps.Keys(to))
	}
	require.Equal(t, map[state][]state{
		stateNew:      {stateClaimed, stateClosed, stateLaunched},
		stateClaimed:  {stateClosed, stateEnded, stateStarting},
		stateStarting: {stateClosed, stateEnded, stateLaunched},
		stateLaunched: {stateEnded},
	}, list)
}

// The properties on which the promise depends that the steps of an attempt start at
// most once, and that each outcome is reported.
func TestTransitions_properties(t *testing.T) {
	t.Parallel()
	m := newMachine()
	for s := range reachable(m) {
		if s.in(tokenAnswered) {
			require.True(t, s.in(stateEnded, stateEndUnrecorded, stateClosed), "an outcome was accepted before it was known: %s", s)
		}
		if s.in(keyRetired) {
			require.True(t, s.in(tokenAnswered), "retired before the outcome was accepted: %s", s)
		}
		if s.in(slotUsed, slotWaiting) {
			require.False(t, s.in(keyErased, keyReleased), "a task that is over takes a slot: %s", s)
		}
		for e := range m {
			next, err := m.next(s, e)
			if err != nil {
				continue
			}
			before, after := s[regionProgress], next[regionProgress]
			if before != stateLaunched && after == stateLaunched {
				require.Contains(t, []event{eventLaunched, eventStepsFound, eventFollowed}, e)
			}
			if e == eventLaunched {
				require.True(t, s.in(stateStarting), "launched without the claim: %s", s)
				require.False(t, s.stopped(), "launched after a stop: %s", s)
				require.True(t, s.in(keyActive), "launched without the key: %s", s)
			}
			if !before.launchable() {
				require.False(t, after.launchable(), "%s goes back from %s", e, s)
			}
			if before.ended() {
				require.True(t, after.ended(), "%s forgets the end of %s", e, s)
			}
			if before == stateClosed {
				require.Equal(t, stateClosed, after, "%s opens a closed key: %s", e, s)
			}
			if s.in(keyErased, keyReleased) {
				require.True(t, next.in(keyErased, keyReleased), "%s continues a task that is over: %s", e, s)
			}
			if s.stopped() {
				require.True(t, next.stopped(), "%s forgets a stop: %s", e, s)
			}
			if s.in(stopForced) {
				require.True(t, next.in(stopForced), "%s forgets that a stop is forced: %s", e, s)
			}
		}
	}
}

func TestTask_illegal_transition(t *testing.T) {
	t.Parallel()
	var logged strings.Builder
	a := &Agent{
		log: slog.New(slog.NewTextHandler(&logged, nil)), machine: newMachine(),
		slots: registration.NewSlots(1, run.Capacity{}), journal: filesIn(t.TempDir()),
	}
	k := newTask(a, journalKey(1))
	require.NoError(t, k.record(eventDelivered, record{Token: []byte("t")}, executor.Kept))
	before := k.states

	require.ErrorIs(t, k.record(eventLaunched, record{FirstFrame: 1}, executor.Synced), errIllegalTransition)
	require.False(t, k.move(eventRetired))
	require.Equal(t, before, k.states)
	require.Equal(t, stateClaimed, k.entry.State)
	require.Equal(t, 2, strings.Count(logged.String(), illegalTransition), logged.String())
	require.NoError(t, k.file.close())
	all, err := a.journal.load()
	require.NoError(t, err)
	require.Equal(t, stateClaimed, all[0].entry.State, "nothing was recorded")
	require.NoError(t, all[0].file.close())
}

// Only enter changes the states of a task, and only record names the state of a
// record: an event can not be applied past the table.
func TestTask_states_have_one_writer(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("*.go")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.AssignStmt:
					for _, left := range n.Lhs {
						requireWriter(t, name, f.Name.Name, left)
					}
				case *ast.CompositeLit:
					requireNoState(t, name, f.Name.Name, n)
				}
				return true
			})
		}
	}
}

// requireWriter checks that a function may assign to an expression.
func requireWriter(t *testing.T, file, function string, left ast.Expr) {
	t.Helper()
	if index, ok := left.(*ast.IndexExpr); ok {
		left = index.X
	}
	selector, ok := left.(*ast.SelectorExpr)
	if !ok {
		return
	}
	writers := map[string][]string{
		"states": {"enter"},
		"State":  {"record", "applyUnrecorded", "apply", "parseEntry"},
	}
	if allowed := writers[selector.Sel.Name]; allowed != nil {
		require.Contains(t, allowed, function, "%s: %s assigns to %s", file, function, selector.Sel.Name)
	}
}

// requireNoState checks that a literal of a record leaves its state to record.
func requireNoState(t *testing.T, file, function string, lit *ast.CompositeLit) {
	t.Helper()
	if name, ok := lit.Type.(*ast.Ident); !ok || name.Name != "record" {
		return
	}
	for _, element := range lit.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			require.NotEqual(t, "State", pair.Key.(*ast.Ident).Name, "%s: a record of %s", file, function)
		}
	}
}
