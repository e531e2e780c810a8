// Package auditlog describes the audit log: who called what through the API, and who
// was refused. Records are appended and completed once, and are never changed after
// that.
package auditlog

import (
	"context"
	"time"

	"github.com/drover-run/drover/run"
)

// Result is how a call ended.
type Result string

// The results.
const (
	// Unknown is the result of a call that has not ended, or whose gateway was killed
	// before it wrote the result, or that failed in a way in which the change may have
	// been made nevertheless.
	Unknown Result = "unknown"
	Success Result = "success"
	Failed  Result = "failed"  // nothing was changed
	Refused Result = "refused" // 401 or 403: nothing was changed
)

// Results lists all results.
func Results() []Result { return []Result{Success, Failed, Refused, Unknown} }

// ResultOf returns the result of an HTTP status. A client that is gone (499), a timeout
// and an internal error do not prove that nothing was changed.
func ResultOf(status int) Result {
	switch {
	case status < 100:
		return Unknown
	case status < 400:
		return Success
	case status == 401 || status == 403:
		return Refused
	case status < 499:
		return Failed
	}
	return Unknown
}

// Record is one record of the log. It has no secret, and nothing of the bodies apart from
// Details and the name of what a call creates.
type Record struct {
	// ID is a ULID of the time, so records are in the order of their ids.
	ID      string
	Time    time.Time // when the call began
	Subject string    // who called; "" if unknown
	Token   string    // the name of the token
	Action  string    // the operationId; "" for a refused request to no operation
	Resource
	// Created is the run that the call created from the resource.
	Created string
	// Details are the rights that the call gives: the scopes or bindings of a token, or role
	// grants, as JSON. They are cut off after some KiB.
	Details string
	// Group is the group of the run. If it is empty, the store looks it up.
	Group     string
	Result    Result
	Status    int // 0 as long as the result is not written
	Code      run.Code
	RequestID string
	Remote    string // the address of the client
	// Count is the number of requests that the record stands for, and Until the time of
	// the last of them. It is above 1 only for refusals.
	Count int
	Until time.Time
}

// KindRun is the kind of runs.
const KindRun = "run"

// Resource is what a call is about.
type Resource struct {
	Kind string
	ID   string // of a run, or the name of something else; "" for several
	Task string // of a run
}

// Query selects records. The zero value of a field does not filter.
type Query struct {
	Subject  string
	Action   string
	Resource Resource // the task is ignored
	Group    string   // and all groups below it
	Result   Result
	From, To time.Time // From is inclusive, To is not
	// Ascending is oldest first.
	Ascending bool
	Limit     int
	// Cursor is Page.Next of the previous page of the same query.
	Cursor string
}

// Page is a page of records.
type Page struct {
	Records []Record
	Next    string // "" on the last page; other pages may be short, too
}

// Log stores the records.
type Log interface {
	// AppendAudit stores records, in one transaction. A record with a known id completes
	// that record if its result is unknown, and else changes nothing. Errors: unavailable.
	AppendAudit(ctx context.Context, records []Record) error
	// ListAudit returns a page. Errors: invalid (a bad cursor), unavailable.
	ListAudit(ctx context.Context, q Query) (Page, error)
}
