package contract_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/run/graph"
)

// TestPayloads_field_names holds the JSON name of each payload field to the name
// of its Go field.
func TestPayloads_field_names(t *testing.T) {
	t.Parallel()
	for _, payload := range []any{
		contract.BatchInput{}, contract.Assignment{}, contract.BatchAddTasks{}, contract.BatchWithdrawTasks{}, contract.BatchReport{}, contract.TaskEnd{},
		contract.ChangeGroupInput{}, contract.ChangeGroupState{}, contract.GrantInput{}, contract.GrantResult{},
		contract.RunInput{}, contract.RunOutput{}, contract.RunState{}, contract.OpenBatch{}, contract.Limits{}, contract.Stop{}, contract.Approve{},
		contract.ExecutorRemoved{}, contract.StateView{}, contract.TaskView{},
		contract.ExecuteInput{}, contract.ExecuteResult{}, contract.Requeue{}, contract.Heartbeat{}, contract.StopInput{}, contract.StopResult{},
		contract.LoadPlanInput{}, contract.PlanPage{}, contract.BeginInput{}, contract.BeginResult{}, contract.ApplyInput{}, contract.ApplyResult{},
		contract.ExpandInput{}, contract.ExpandResult{}, contract.HoldersInput{}, contract.HoldersResult{}, contract.Holder{},
		contract.RetentionInput{}, contract.ExpireLogsInput{}, contract.ExpireLogsResult{}, contract.ExpireArchivesInput{}, contract.ExpireArchivesResult{},
		contract.DeleteRunsInput{}, contract.DeleteRunsResult{}, contract.RemoveEventsInput{}, contract.RemoveEventsResult{},
		contract.ExecutorInput{}, contract.ExpireInput{}, contract.ExecutorState{},
		contract.FleetInput{}, contract.FleetState{}, contract.FleetPlan{}, contract.FleetRequest{}, contract.InstanceAction{}, contract.WatchFleetInput{},
		contract.WatchFleetResult{}, contract.RunFleetStepInput{}, contract.BootstrapInstanceInput{},
		contract.ScheduledRunInput{}, contract.ScheduledRunOutput{}, contract.FireInput{}, contract.FireResult{}, contract.AwaitRunInput{},
		contract.AwaitRunResult{}, contract.EndRunInput{},
		contract.WebhookInput{}, contract.DeliverInput{}, contract.DeliverResult{},
		run.Key{}, run.Progress{}, run.TaskChange{}, run.TaskStatus{}, run.TaskResult{}, run.StepResult{}, run.Release{}, run.Retention{}, run.RetentionStatus{},
		graph.DynamicTasks{},
	} {
		for _, field := range reflect.VisibleFields(reflect.TypeOf(payload)) {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name != "-" {
				require.Equal(t, snake(field.Name), name, "%T.%s", payload, field.Name)
			}
		}
	}
}

var words = regexp.MustCompile(`([a-z])([A-Z])`)

func snake(name string) string { return strings.ToLower(words.ReplaceAllString(name, "${1}_$2")) }

// TestNames_are_documented holds docs/temporal-names.md to the constants.
func TestNames_are_documented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/temporal-names.md")
	require.NoError(t, err)
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	name := regexp.MustCompile(`^(Activity|Attribute|Error|Query|Signal)|(Workflow|Queue)$`)
	found := 0
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || !name.MatchString(spec.Names[0].Name) || len(spec.Values) != 1 {
				return true
			}
			if value, ok := spec.Values[0].(*ast.BasicLit); ok && value.Kind == token.STRING {
				found++
				require.Contains(t, string(page), "`"+strings.Trim(value.Value, `"`)+"`", spec.Names[0].Name)
			}
			return true
		})
	}
	require.Greater(t, found, 50)
}
