// Command cel answers questions about CEL expressions with Kubernetes' own libraries: one JSON object on each line of
// standard input, one answer on each line of standard output.
//
//	{"expr": "taint.key == 'a'", "taint": {"key": "a", "value": "", "effect": "NoSchedule"}}
//	{"expr": "device.driver == 'd'", "device": {"driver": "d", "attributes": {"model": {"string": "a100"}}}}
//
// Tolerations: Kubernetes' base environment with a variable `taint`, whose sizes are those of weir.taints.expression.
// Devices: the environment of dynamic resource allocation, with all of its features on.
package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"sort"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/version"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
	dracel "k8s.io/dynamic-resource-allocation/cel"
)

const costLimit = 1_000_000

type question struct {
	Expr   string            `json:"expr"`
	Taint  map[string]string `json:"taint"`
	Device *device           `json:"device"`
}

type device struct {
	Driver                   string                                                    `json:"driver"`
	AllowMultipleAllocations *bool                                                     `json:"allowMultipleAllocations"`
	Attributes               map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes"`
	Capacity                 map[resourceapi.QualifiedName]resourceapi.DeviceCapacity  `json:"capacity"`
}

type answer struct {
	Expr     string     `json:"expr"`
	Outcome  string     `json:"outcome"`
	Error    string     `json:"error,omitempty"`
	Value    any        `json:"value,omitempty"`
	Type     string     `json:"type,omitempty"`
	Estimate *[2]uint64 `json:"cost_estimate,omitempty"`
	MaxCost  *uint64    `json:"max_cost,omitempty"`
	Cost     *uint64    `json:"actual_cost,omitempty"`
}

// taintSizes are the longest texts of a taint that the API accepts.
type taintSizes struct{}

var longest = map[string]uint64{"taint": 0, "taint.key": 317, "taint.value": 63, "taint.effect": 16}

func (taintSizes) EstimateSize(node checker.AstNode) *checker.SizeEstimate {
	if most, ok := longest[strings.Join(node.Path(), ".")]; ok {
		return &checker.SizeEstimate{Min: 0, Max: most}
	}
	return nil
}

func (taintSizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}

func main() {
	env, err := tolerations()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	devices := dracel.GetCompiler(dracel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true})
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 1<<20), 1<<26)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for lines.Scan() {
		var asked question
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		given := guarded(asked.Expr, func() answer {
			if asked.Device != nil {
				return aboutDevice(devices, asked)
			}
			return aboutTaint(env, asked)
		})
		if err := out.Encode(given); err != nil {
			_ = out.Encode(answer{Expr: asked.Expr, Outcome: "unprintable", Error: err.Error()})
		}
	}
}

// guarded turns a panic into an answer: a few expressions make upstream's libraries panic.
func guarded(expr string, ask func() answer) (given answer) {
	defer func() {
		if reason := recover(); reason != nil {
			given = answer{Expr: expr, Outcome: "panic", Error: fmt.Sprint(reason)}
		}
	}()
	return ask()
}

func tolerations() (*cel.Env, error) {
	field := func(name string) *apiservercel.DeclField {
		return apiservercel.NewDeclField(name, apiservercel.StringType, true, nil, nil)
	}
	taint := apiservercel.NewObjectType("kubernetes.Taint", map[string]*apiservercel.DeclField{
		"key": field("key"), "value": field("value"), "effect": field("effect"),
	})
	base := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	set, err := base.Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0),
		EnvOptions:        []cel.EnvOption{cel.Variable("taint", taint.CelType())},
		DeclTypes:         []*apiservercel.DeclType{taint},
	})
	if err != nil {
		return nil, err
	}
	return set.Env(environment.StoredExpressions)
}

func aboutTaint(env *cel.Env, asked question) answer {
	given := answer{Expr: asked.Expr}
	ast, issues := env.Compile(asked.Expr)
	if issues != nil && issues.Err() != nil {
		given.Outcome, given.Error = "compile_error", issues.String()
		return given
	}
	given.Type = ast.OutputType().String()
	if cost, err := env.EstimateCost(ast, &library.CostEstimator{SizeEstimator: taintSizes{}}); err == nil {
		given.Estimate = &[2]uint64{cost.Min, cost.Max}
	}
	program, err := env.Program(ast, cel.CostLimit(costLimit), cel.InterruptCheckFrequency(100))
	if err != nil {
		given.Outcome, given.Error = "program_error", err.Error()
		return given
	}
	bound := map[string]any{}
	for _, name := range []string{"key", "value", "effect"} {
		bound[name] = asked.Taint[name]
	}
	value, details, err := program.Eval(map[string]any{"taint": bound})
	if details != nil {
		given.Cost = details.ActualCost()
	}
	if err != nil {
		given.Outcome, given.Error = "eval_error", err.Error()
		return given
	}
	given.Outcome, given.Value = "value", written(value)
	return given
}

type compiler interface {
	CompileCELExpression(expression string, options dracel.Options) dracel.CompilationResult
}

func aboutDevice(devices compiler, asked question) answer {
	given := answer{Expr: asked.Expr}
	fresh := environment.NewExpressions
	result := devices.CompileCELExpression(asked.Expr, dracel.Options{EnvType: &fresh})
	if result.Error != nil {
		given.Outcome, given.Error = "refused", result.Error.Detail
		return given
	}
	given.Type, given.MaxCost = result.OutputType.String(), &result.MaxCost
	matches, details, err := result.DeviceMatches(context.Background(), dracel.Device(*asked.Device))
	if details != nil {
		given.Cost = details.ActualCost()
	}
	if err != nil {
		given.Outcome, given.Error = "eval_error", err.Error()
		return given
	}
	given.Outcome, given.Value = "value", written(types.Bool(matches))
	return given
}

// written returns a value in the notation of the shared CEL vectors.
func written(value ref.Val) any {
	of := func(kind string, content any) any { return map[string]any{"type": kind, "value": content} }
	switch known := value.(type) {
	case types.Null:
		return of("null", nil)
	case types.Bool:
		return of("bool", bool(known))
	case types.Int:
		return of("int", int64(known))
	case types.Uint:
		return of("uint", uint64(known))
	case types.Double:
		return of("double", double(float64(known)))
	case types.String:
		return of("string", string(known))
	case types.Bytes:
		return of("bytes", base64.StdEncoding.EncodeToString([]byte(known)))
	case types.Duration:
		return of("duration", fmt.Sprintf("%dns", known.Nanoseconds()))
	case types.Timestamp:
		return of("timestamp", known.UTC().Format("2006-01-02T15:04:05.999999999Z07:00"))
	case *types.Optional:
		if !known.HasValue() {
			return of("optional", nil)
		}
		return of("optional", written(known.GetValue()))
	case traits.Lister:
		elements := []any{}
		for it := known.Iterator(); it.HasNext() == types.True; {
			elements = append(elements, written(it.Next()))
		}
		return of("list", elements)
	case traits.Mapper:
		entries := [][2]any{}
		for it := known.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			entries = append(entries, [2]any{written(key), written(known.Get(key))})
		}
		sort.Slice(entries, func(i, j int) bool { return fmt.Sprint(entries[i][0]) < fmt.Sprint(entries[j][0]) })
		return of("map", entries)
	}
	if value.Type() == types.TypeType {
		return of("type", value.(ref.Type).TypeName())
	}
	return of(value.Type().TypeName(), fmt.Sprint(value.Value()))
}

func double(number float64) any {
	switch {
	case math.IsNaN(number):
		return "NaN"
	case math.IsInf(number, 1):
		return "Infinity"
	case math.IsInf(number, -1):
		return "-Infinity"
	case number == 0 && math.Signbit(number):
		return "-0.0"
	}
	return number
}
