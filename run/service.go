package run

import (
	"context"
	"io"
	"iter"
	"time"
)

// StopOptions say how a run is stopped.
type StopOptions struct {
	// Force kills the tasks: cleanup steps do not begin, or end, if the run is being
	// stopped already.
	Force bool
	// CancelQueued is Cancel for a queued run, instead of an error.
	CancelQueued bool
}

// Service is the API that clients call. Implementations are safe for concurrent
// use. Each call lists the codes of its errors; every call also fails with
// CodeUnavailable if the records store cannot be reached.
type Service interface {
	ExecutorRegistry
	// Create validates the specification, stores the run and starts it. After
	// Create returns, the run continues even if any process dies. Errors:
	// invalid with all faults, not_supported, changegroup_conflict,
	// changegroup_busy, and idempotency_mismatch (the key was used with another
	// request).
	Create(ctx context.Context, req CreateRequest) (Run, error)
	// Get returns a run with its tasks, steps and the reasons for waiting, and
	// the update token of the named change groups, from one snapshot. Errors:
	// not_found.
	Get(ctx context.Context, id ID, tokenFor ...string) (Run, error)
	// GroupOf returns the group of a run, which never changes. Errors: not_found.
	GroupOf(ctx context.Context, id ID) (string, error)
	// List returns one page of runs without their tasks. Errors: invalid.
	List(ctx context.Context, q ListQuery) (Page, error)
	// Start starts a queued run of manual admission. The run is running when
	// the call returns, unless it has to wait for its change groups. Start and
	// the other calls that change a run take an update token; nil means none.
	// Errors: not_found, wrong_phase, changegroup_busy, changegroup_conflict.
	// The calls below can also fail with changegroup_conflict.
	Start(ctx context.Context, id ID, token Token) (Run, error)
	// Cancel ends a queued run permanently. Errors: not_found, wrong_phase.
	Cancel(ctx context.Context, id ID, token Token) (Run, error)
	// Stop stops a running run. It returns at once; the run is finished when
	// none of its tasks executes any more. Errors: not_found, wrong_phase.
	Stop(ctx context.Context, id ID, opts StopOptions, token Token) (Run, error)
	// Approve approves a waiting task on behalf of subject. Errors: not_found,
	// not_waiting_approval, forbidden (the task does not name the subject).
	Approve(ctx context.Context, id ID, task, subject string, token Token) (Run, error)
	// Reject rejects a waiting task on behalf of subject: the task fails with the
	// reason, and never runs. Errors: not_found, not_waiting_approval, forbidden,
	// invalid (no reason).
	Reject(ctx context.Context, id ID, task, subject, reason string, token Token) (Run, error)
	// Approvals returns a page of the tasks that wait for approval, by run and
	// number. Errors: invalid.
	Approvals(ctx context.Context, q ApprovalQuery) (ApprovalPage, error)
	// Spec returns the specification of a run as it was submitted; the value of
	// each secret is hidden. Errors: not_found.
	Spec(ctx context.Context, id ID) (*Spec, error)
	// Annotate replaces the annotations of the run, or of the task where one
	// is named. Errors: not_found, invalid.
	Annotate(ctx context.Context, id ID, task string, annotations map[string]string, token Token) (Run, error)
	// Restart creates a new run from a run that is final. Errors: not_found,
	// wrong_phase (the run is not final, or there is nothing to restart),
	// invalid, and those of Create.
	Restart(ctx context.Context, req RestartRequest) (Run, error)
	// PlanRestart says what becomes of each task in a restart, in the order of the new run, and
	// creates nothing. Errors: those of Restart, without those of change groups and keys.
	PlanRestart(ctx context.Context, req RestartRequest) ([]RestartTask, error)
	// Delete removes a final run and its logs permanently. Errors: not_found,
	// wrong_phase.
	Delete(ctx context.Context, id ID) error
	// DeleteRuns removes final runs, oldest first (with Keep, group by group),
	// and returns how many it removed. It stops at MaxDelete and reports that
	// more are left. Errors: invalid.
	DeleteRuns(ctx context.Context, q DeleteQuery) (Deleted, error)
	// ChangeGroups returns change groups by name, and one update token for all
	// of them, from one snapshot. Errors: invalid.
	ChangeGroups(ctx context.Context, q ChangeGroupQuery) ([]ChangeGroup, Token, error)
	// PutChangeGroup sets the limit and policy of a change group, and grants
	// the slots that become free. It returns the group and its new token.
	// Errors: invalid.
	PutChangeGroup(ctx context.Context, g ChangeGroup, token Token) (ChangeGroup, Token, error)
	// Groups counts the open runs of groups and returns the last run of each.
	// Errors: invalid.
	Groups(ctx context.Context, q GroupQuery) (GroupPage, error)
	// Logs opens the log of a task. Errors: not_found (run, task, attempt),
	// invalid (an unknown step or stream, a negative offset).
	Logs(ctx context.Context, q LogQuery) (LogReader, error)
	// EventBounds returns the greatest number of a removed event: an event of
	// the run, or any event if id is "". It is 0 if no such event was removed. last is the
	// number of the newest event of any run, 0 if there was none. Errors: not_found.
	EventBounds(ctx context.Context, id ID) (floor, last int64, err error)
	// Events yields the events after q.After, oldest first, and then waits for
	// new ones until ctx ends. While many events match nothing of q, it also yields
	// events without a type: all events of q up to their numbers were yielded. Errors:
	// gone (the next event was removed).
	Events(ctx context.Context, q EventQuery) iter.Seq2[Event, error]
	// Ready returns nil if the service can work, and otherwise an error that
	// names what is missing. Errors: unavailable.
	Ready(ctx context.Context) error
}

// CreateRequest asks for a new run.
type CreateRequest struct {
	Spec *Spec
	// Subject is the caller.
	Subject string
	Token   Token // nil for none
	// IdempotencyKey, if not "", makes Create idempotent: within
	// IdempotencyTime, Create returns the run that an equal request of the
	// subject with this key created, and creates no other.
	IdempotencyKey string
}

// IdempotencyTime is how long an idempotency key is remembered.
const IdempotencyTime = 24 * time.Hour

// RestartFrom says which tasks of a run are to run again.
type RestartFrom string

// Where to restart from.
const (
	RestartStart RestartFrom = "start" // all tasks
	// RestartFailed runs the tasks that failed or were stopped, and all tasks
	// that depend on them; other tasks that succeeded are kept. It is an error
	// for a run that succeeded, unless Spec changes tasks of it.
	RestartFailed RestartFrom = "failed"
)

// RestartRequest asks for a restart of a run. Exactly one of From and Tasks is
// set.
type RestartRequest struct {
	Run  ID
	From RestartFrom
	// Tasks are to run again, with all tasks that depend on them; all others
	// keep their results. An expansion may be named as a whole.
	Tasks []string
	// Spec, if not nil, replaces the specification. Besides the tasks that From and Tasks choose,
	// those that it changes run, and all tasks that depend on them: see spec.Changes. A secret whose value is hidden keeps
	// the value of the old run, if the subject gave it there; a subject that did not gives each
	// value again, which counts as a change.
	Spec *Spec
	// Environment and Secrets override those of the old run.
	Environment map[string]string
	Secrets     map[string]Secret
	// InputValues override values of inputs of the old run.
	InputValues map[string]string

	Subject        string
	Token          Token
	IdempotencyKey string
}

// MaxDelete is the most runs that one call of DeleteRuns removes.
const MaxDelete = 1000

// DeleteQuery selects final runs to delete; a run must match all conditions
// that are set. At least one of Before and Keep must be set.
type DeleteQuery struct {
	Group  string    // this path and below; "" means all
	Before time.Time // created before
	// Keep is the number of newest runs of each group (of each exact path) that
	// are not deleted; 0 means that this condition is not set.
	Keep int
	// DryRun counts the runs and deletes none.
	DryRun bool
	// Throttle, if not nil, is called before each deletion. If it returns an error,
	// the call ends and returns what it has deleted so far.
	Throttle func(ctx context.Context) error
}

// Deleted is the result of DeleteRuns.
type Deleted struct {
	Runs int
	More bool // more matching runs are left
}

// ApprovalQuery selects tasks that wait for approval.
type ApprovalQuery struct {
	Group  string   // this path and below; "" means all
	Within []string // only in these paths and below; none means no such limit
	Limit  int      // 1 to 100; 0 means 25
	After  string   // of the page before
}

// ApprovalPage is one page of tasks that wait for approval. After is for the next
// query; it is "" on the last page.
type ApprovalPage struct {
	Approvals []WaitingApproval
	After     string
}

// WaitingApproval is a task that waits for approval.
type WaitingApproval struct {
	Run        ID
	RunName    string
	Group      string
	Number     int // of the task
	Task       string
	Approval   Approval
	ApprovedBy []string
	Since      time.Time // when it began to wait; zero if that is not recorded
	Due        time.Time // when it is rejected; zero if never
}

// GroupQuery selects groups by path: either those of Paths, each counted with
// all groups below it, or else every exact path at or below Under that has
// runs.
type GroupQuery struct {
	Paths []string
	Under string // without Paths; "" means all
	// Within leaves out all runs that are not in these paths or below; none means that no
	// run is left out.
	Within []string
	After  string // without Paths: greater paths
	Limit  int    // without Paths: 1 to 100; 0 means 25
}

// Group counts the runs of a group.
type Group struct {
	Path    string
	Queued  int
	Running int
	Last    *Run // the newest, without tasks; nil if there is none
}

// GroupPage is one page of groups. After is for the next query; it is "" on the
// last page.
type GroupPage struct {
	Groups []Group
	After  string
}

// ListQuery selects runs. Values of one field are alternatives; all fields must
// match. The zero value selects the newest runs.
type ListQuery struct {
	Phases        []Phase
	Results       []Result
	Groups        []string // the path itself, or any path below it
	ChangeGroups  []string
	Annotations   []Annotation
	Inputs        []InputValue `json:",omitempty"` // whole values, as they were given or by default; of one input they are alternatives
	Warnings      bool         `json:",omitempty"` // only finished runs with the result success that have warnings: see Run.Warnings
	Names         []string     // whole names
	CreatedBy     []string     // actors, as Run.CreatedBy has them; "" is one that is not recorded
	CreatedAfter  time.Time
	CreatedBefore time.Time
	Limit         int    // 1 to 100; 0 means 25
	Cursor        string // from a page's Next or Prev
	Ascending     bool   // oldest first
	// TokenFor names the change groups of the page's token.
	TokenFor []string
}

// Annotation is one key and value.
type Annotation struct{ Key, Value string }

// InputValue is an input of a run, and its value as text.
type InputValue struct{ Name, Value string }

// Page is one page of runs. A cursor is "" if there are no more runs in its
// direction. A page between others may have fewer runs than the limit, or none:
// one read compares a limited number of runs with several conditions.
type Page struct {
	Runs []Run
	Next string
	Prev string
	// Token is from the same snapshot as the runs; nil if no groups were named.
	Token Token
}

// LogQuery selects a log.
type LogQuery struct {
	Run     ID
	Task    string
	Attempt int      // 0 means the newest
	Step    *int     // from 0; SetupStep; nil means all of the task in order
	Streams []Stream // nil means all but the output of services
	Offset  int64    // in bytes of the selected output
	// Since leaves out output that is older; Tail leaves out all but the last
	// lines. If both are set, both apply. Neither is allowed with Offset.
	Since  time.Time // zero: no limit
	Tail   *int      // nil: all
	Follow bool      // continue until the step or task is final
}

// LogReader reads a log. Close must be called.
type LogReader interface {
	io.Closer
	// Offset returns the offset at which this reader begins. A later reader
	// with this offset reads the same bytes from there on.
	Offset() int64
	// Services returns the services with output in what was read, also if the query does
	// not select it, sorted.
	Services() []string
	// Next returns the next chunk, and io.EOF at the end. If the query follows
	// the log, Next waits for the chunk.
	Next(ctx context.Context) (LogChunk, error)
}

// LogChunk is a piece of a log.
type LogChunk struct {
	Offset int64 // of the first byte of Data, within the selected output
	Time   time.Time
	Step   int
	Stream Stream
	Data   []byte
}

// EventQuery selects events.
type EventQuery struct {
	After  int64    // events with greater numbers
	Run    ID       // only of this run; "" means all runs
	Group  string   // only of this group path and below; "" means all groups
	Within []string // only of these group paths and below; none means no such limit
}

// ExecutorAPI is the API that executors call; the gateway serves it on its executor
// endpoints. Implementations are safe for concurrent use. Every call fails with
// forbidden once the executor was removed, and for no other reason.
type ExecutorAPI interface {
	ArchiveAPI
	// Register registers an executor, or registers it again, and returns its
	// desired state. Errors: conflict if the id belongs to another journal
	// whose registration is still renewed, forbidden if the id was removed,
	// invalid if the executor does not fit its pool.
	Register(ctx context.Context, e Executor) (DesiredState, error)
	// Renew renews the registration of an executor, reports which slots it
	// uses, and returns its desired state. It fails like Register, and with
	// not_found if the executor must register again.
	Renew(ctx context.Context, r Renewal) (DesiredState, error)
	// Claim claims a task: it returns the definition of a key to one executor
	// only, even if Temporal delivers the key to several. A repeated claim by
	// the same executor and journal returns it again. Errors: conflict (another
	// executor has the claim, the claim is closed, the key is not the newest
	// dispatch of its task, or the executor is too old for the task), not_found
	// (also if the request does not allow the claim).
	Claim(ctx context.Context, c ClaimRequest) (Definition, error)
	// AppendFrames stores frames. Frames are idempotent by their number, and must be
	// sent in order without gaps. Errors: conflict (the claim is not this
	// executor's), not_found.
	AppendFrames(ctx context.Context, b FrameBatch) error
	// ClaimStates returns, for each key, whether the executor's claim of it is
	// still open. A key that another executor claimed is ClaimUnknown or
	// ClaimUnclaimable.
	ClaimStates(ctx context.Context, executor string, keys []Key) (map[Key]ClaimState, error)
}

// Renewal renews the registration of an executor.
type Renewal struct {
	Executor  string
	Set       string // the executor set of which it is a member; "" for none. Likewise below
	JournalID string
	SlotsUsed int
	Draining  bool // the executor takes no tasks
	// Drained says that the executor drains and is idle: it has no task, and no
	// poll that might still return one.
	Drained bool
	// Expiring asks whether the executor may get a new token before its token
	// expires: see DesiredState.Gone.
	Expiring bool
}

// DesiredState is the state that the gateway requires of an executor.
type DesiredState struct {
	// Drain says that the executor takes no tasks and finishes those that run.
	// It holds until an answer does not have it.
	Drain bool
	// Fleet and Instance name the instance of a fleet that the executor is.
	// They are set in the answer to a renewal; "" for none.
	Fleet, Instance string
	// Gone answers Renewal.Expiring: the fleet does not have that instance any
	// more, or is deleting it, so the executor gets no new token.
	Gone bool
	// Labels has the labels that waiting tasks of the pool require of their executor,
	// as far as this executor has them: one item for each set of labels. It polls for
	// those tasks.
	Labels []map[string]string
	// LabelsOnly says that no other tasks wait: the executor keeps a slot for those with
	// labels.
	LabelsOnly bool
	// Slots, if not nil, is how many of its slots the executor may use, since the pool
	// has a limit.
	Slots *int
}

// ClaimRequest asks for the definition of a key.
type ClaimRequest struct {
	Key       Key
	Executor  string
	Set       string
	JournalID string
	// SpecVersion is the newest version of a task specification that the executor
	// supports (see RequiredSpecVersion); 0 if the executor does not report it.
	SpecVersion int
	// ClaimProof proves that a relay handed the key to the executor. A gateway asks
	// for it if it does not trust the executor's own word.
	ClaimProof string
	// Pool, if not "", is the only pool whose tasks the executor may claim.
	Pool string
	// ReclaimOnly allows only a claim that the executor has already, since there is
	// no proof that the key was handed to it.
	ReclaimOnly bool
}

// ClaimState is the state of a claim.
type ClaimState string

// The states of a claim.
const (
	ClaimUnknown ClaimState = "unknown" // never claimed by this executor
	ClaimOpen    ClaimState = "open"
	ClaimClosed  ClaimState = "closed" // the task is final, or queued again: the environment may be removed
	// ClaimUnclaimable: never claimed by this executor, and no longer claimable, since
	// the task, which is of the executor's pool, is final or queued again.
	ClaimUnclaimable ClaimState = "void"
)

// FrameBatch is a sequence of frames with dense numbers. A retry sends the same
// frames in the same batch.
type FrameBatch struct {
	Key      Key     `json:"key"`
	Executor string  `json:"executor"`
	Set      string  `json:"set,omitempty"`
	Frames   []Frame `json:"frames"`
	// Stored is the size of the batch in the blob store, in bytes. It is set
	// once the batch is stored.
	Stored int64 `json:"-"`
	// Budget is the most that the log of the dispatch may cost from its first
	// batch on, measured by LogCost; 0 means no bound. Later batches use what
	// is left of it.
	Budget int64 `json:"-"`
}

// BearerToken is a bearer token of a gateway as operators see it: never the token
// itself.
type BearerToken struct {
	Name   string
	Scopes []string
	// Bindings are its roles in groups, instead of scopes.
	Bindings []RoleBinding
	// Executor, Pool, Set, Fleet and Instance restrict the token; "" does not.
	Executor, Pool, Set, Fleet, Instance string
	Expires                              time.Time // zero: never
	LastUsed                             time.Time // zero: never, or not known
	RevokedAt                            time.Time // zero: it is not revoked
	RevokedBy                            string
	CreatedBy                            string // "" for an entry of a token file
}

// RoleBinding gives a role in the groups of patterns: see GroupPattern.
type RoleBinding struct {
	Role   string   `json:"role"`
	Groups []string `json:"groups"`
}

// TokenEntry is what a token allows that a client created: scopes, or bindings.
type TokenEntry struct {
	Scopes   []string      `json:"scopes,omitempty"`
	Bindings []RoleBinding `json:"bindings,omitempty"`
}

// TokenRecord is what the gateways share about a bearer token.
type TokenRecord struct {
	Hash string // identifies the token
	Name string
	// Entry, Expires and CreatedBy are of a token that a client created; Entry is nil for
	// those of the token files.
	Entry     *TokenEntry
	Expires   time.Time // zero: never
	CreatedBy string

	LastUsed  time.Time // zero: never
	RevokedAt time.Time // zero: it is not revoked
	RevokedBy string
}

// BearerTokens is the API for operators of the tokens of a gateway. Implementations
// are safe for concurrent use.
type BearerTokens interface {
	// ListTokens returns the tokens by name. Errors: unavailable.
	ListTokens(ctx context.Context) ([]BearerToken, error)
	// CreateToken creates a token, whose entry has a name and either scopes or bindings,
	// and may expire. It returns the token and its entry. Errors: invalid, conflict
	// (another token has the name), unavailable.
	CreateToken(ctx context.Context, t BearerToken, by string) (secret string, _ BearerToken, _ error)
	// RevokeToken revokes a token for all gateways, permanently. A token that is
	// revoked already stays as it is. Errors: not_found, unavailable.
	RevokeToken(ctx context.Context, name, by string) (BearerToken, error)
}

// BrowserSession is the login of a browser. Its cookie holds a secret, of which only
// the hash is stored.
type BrowserSession struct {
	Hash string // of the secret
	// Token is the hash of the bearer token that began it, with which it ends, or names
	// the identity that began it.
	Token string
	Name  string // of the token or identity
	// Browser is the User-Agent of the login, shortened, for the user to recognize it.
	Browser           string
	Created, LastUsed time.Time
	Expires           time.Time // regardless of its use
	// Identity is the user of an OpenID Connect provider; zero if a bearer token began
	// the session. The tokens of the provider are sealed with the secret of the session.
	Identity Identity
	Sealed   string
	// Confirmed is when the provider said last that the login is valid. Until
	// ConfirmAfter it is not asked again.
	Confirmed, ConfirmAfter time.Time
}

// Identity is a user of an OpenID Connect provider.
type Identity struct {
	Issuer  string   `json:"issuer"`
	Subject string   `json:"subject"` // what the provider calls the user, for ever
	Name    string   `json:"name"`    // what people call the user
	Groups  []string `json:"groups,omitempty"`
}
