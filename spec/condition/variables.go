package condition

import (
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
)

// The variables of expressions.
const (
	variableInputs      = "inputs"
	variableEnv         = "env"
	variableAnnotations = "annotations"
	variableTasks       = "tasks"
	variableRun         = "run"
	variableMatrix      = "matrix"
	variableItem        = "item"
	variableItemIndex   = "item_index"
)

// The types of the variables.
const (
	typeTask = "drover.Task"
	typeRun  = "drover.Run"
)

// fieldNames names the fields of those types as their tags do.
func fieldNames() cel.NativeTypeOption { return types.ParseStructTags(true) }

// fieldOutputs is the field of a Task that has its outputs.
const fieldOutputs = "outputs"

// Values are the values of the variables.
type Values struct {
	Inputs      map[string]any
	Env         map[string]string // without secrets
	Annotations map[string]string // of the run
	Tasks       map[string]Task   // those that Refs names
	Run         Run
	Matrix      map[string]string // of a task with a matrix: its axes
	Item        string            // of a task of a foreach
	ItemIndex   int               // likewise
}

// Task is a task of the run in an expression.
type Task struct {
	Status  string            `cel:"status"`
	Outputs map[string]string `cel:"outputs"`
}

// Run is the run in an expression.
type Run struct {
	ID      string `cel:"id"`
	Name    string `cel:"name"`
	Group   string `cel:"group"`
	Counter int64  `cel:"counter"`
}

func (v *Values) activation() map[string]any {
	inputs := v.Inputs
	if inputs == nil {
		inputs = map[string]any{}
	}
	return map[string]any{
		variableInputs: inputs, variableEnv: v.Env, variableAnnotations: v.Annotations, variableTasks: v.Tasks,
		variableRun: v.Run, variableMatrix: v.Matrix, variableItem: v.Item, variableItemIndex: int64(v.ItemIndex),
	}
}

// environment returns the variables and functions of a scope. It is built on first
// use: most processes that link this package compile no expression.
func environment(scope Scope) (*cel.Env, error) {
	switch scope {
	case ScopeMatrix:
		return matrixEnvironment()
	case ScopeForeach:
		return foreachEnvironment()
	case ScopeTask:
	}
	return taskEnvironment()
}

var (
	taskEnvironment = sync.OnceValues(func() (*cel.Env, error) {
		texts := cel.MapType(cel.StringType, cel.StringType)
		return cel.NewEnv(
			cel.Types(
				cel.NativeTypeFor[Task](cel.NativeTypeAlias(typeTask), fieldNames()),
				cel.NativeTypeFor[Run](cel.NativeTypeAlias(typeRun), fieldNames()),
			),
			cel.Variable(variableInputs, cel.MapType(cel.StringType, cel.DynType)),
			cel.Variable(variableEnv, texts),
			cel.Variable(variableAnnotations, texts),
			cel.Variable(variableTasks, cel.MapType(cel.StringType, cel.ObjectType(typeTask))),
			cel.Variable(variableRun, cel.ObjectType(typeRun)),
			cel.DefaultUTCTimeZone(true),
			cel.CrossTypeNumericComparisons(true),
			cel.ParserRecursionLimit(maxNesting),
			cel.ParserErrorRecoveryLimit(maxFaults),
			cel.ParserExpressionSizeLimit(MaxBytes),
			cel.ExpressionNodeLimit(maxNodes),
			cel.RegexProgramSizeLimit(maxRegexSize),
			cel.ASTValidators(cel.ValidateRegexLiterals(), cel.ValidateComprehensionNestingLimit(maxLoops)),
		)
	})
	matrixEnvironment = sync.OnceValues(func() (*cel.Env, error) {
		return extend(cel.Variable(variableMatrix, cel.MapType(cel.StringType, cel.StringType)))
	})
	foreachEnvironment = sync.OnceValues(func() (*cel.Env, error) {
		return extend(cel.Variable(variableItem, cel.StringType), cel.Variable(variableItemIndex, cel.IntType))
	})
)

func extend(more ...cel.EnvOption) (*cel.Env, error) {
	env, err := taskEnvironment()
	if err != nil {
		return nil, err
	}
	return env.Extend(more...)
}
