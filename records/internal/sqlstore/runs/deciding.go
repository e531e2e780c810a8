package runs

import (
	"context"
	"errors"
	"time"

	"github.com/drover-run/drover/spec/condition"
)

// Users write conditions, and other transactions wait for the one that evaluates them.
// So all its work has a cost, in units of CEL: a computer does about ten million in a
// second.
const (
	// quickCost is for conditions in a transaction that also writes other changes:
	// hundreds of ordinary ones.
	quickCost = 10_000
	// patientCost is for conditions in a transaction of its own, of which a process
	// has one at a time. It takes some milliseconds.
	patientCost = 50_000
	// taskCost is for all conditions of a task and its steps. A task that needs more
	// fails.
	taskCost = 128_000

	costOfEvaluation  = 10  // in addition to that of the expression
	costOfCompilation = 200 // and compilationOfByte for each byte
	compilationOfByte = 15
	costOfRow         = 50
	bytesOfCost       = 50 // of data read for each unit
	variablesOfCost   = 4

	// maxPatient and patience bound the transactions of a call, and how long it waits
	// for its turns. What is left then comes with another call.
	maxPatient = 20
	patience   = time.Second
	maxRest    = 50 * time.Millisecond
)

func costOfBytes(n int) uint64     { return uint64(n / bytesOfCost) }
func costOfVariables(n int) uint64 { return uint64(n / variablesOfCost) }

// deciding is the work on conditions of one call, which may take several transactions:
// what the first one cannot evaluate in little time is left for others, between which
// the calls of other runs get their turns.
type deciding struct {
	limit    uint64 // of the transaction
	patient  bool   // the transaction only evaluates conditions
	compiles map[conditionText]*compiledCondition
	missing  []conditionText // to compile before the next transaction
	left     []int           // numbers of tasks for the next transaction
}

// conditionText identifies a compiled condition.
type conditionText struct {
	text  string
	scope condition.Scope
}

type compiledCondition struct {
	condition *condition.Condition
	faults    []condition.Fault
}

// reset begins a transaction.
func (w *deciding) reset() { w.missing, w.left = nil, nil }

// compiled returns a condition that is compiled already, or whose compilation costs
// little beside what was spent; nil if it will be compiled outside of transactions.
func (w *deciding) compiled(of conditionText, spent uint64) (*compiledCondition, uint64) {
	if c := w.compiles[of]; c != nil {
		return c, 0
	}
	cost := costOfCompilation + compilationOfByte*uint64(len(of.text))
	if spent+cost > w.limit {
		w.missing = append(w.missing, of)
		return nil, 0
	}
	return w.compile(of), cost
}

func (w *deciding) compileMissing() {
	for _, of := range w.missing {
		w.compile(of)
	}
}

func (w *deciding) compile(of conditionText) *compiledCondition {
	if c := w.compiles[of]; c != nil {
		return c
	}
	c := new(compiledCondition)
	c.condition, c.faults = condition.Compile(of.text, of.scope)
	w.compiles[of] = c
	return c
}

// decide calls fn, which runs one transaction, until that leaves no task.
func (s *Store) decide(ctx context.Context, fn func(*deciding) error) error {
	w := &deciding{limit: quickCost, compiles: make(map[conditionText]*compiledCondition)}
	err := fn(w)
	w.limit, w.patient = patientCost, true
	end := time.NewTimer(patience)
	defer end.Stop()
	for range maxPatient {
		if len(w.left) == 0 || err != nil && !errors.Is(err, errTooMany) {
			break
		}
		w.compileMissing()
		select {
		case s.turn <- struct{}{}:
			err = s.inTurn(func() error { return fn(w) })
		case <-end.C:
			return err
		case <-ctx.Done():
			return s.db.Wrap("wait to evaluate conditions", ctx.Err())
		}
	}
	return err
}

// inTurn calls fn, and ends the turn as long after it as it took, at most maxRest: half of
// the time is for the calls of other runs.
func (s *Store) inTurn(fn func() error) error {
	begun := time.Now()
	defer func() { time.AfterFunc(min(time.Since(begun), maxRest), func() { <-s.turn }) }()
	return fn()
}
