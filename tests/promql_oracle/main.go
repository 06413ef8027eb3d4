// Prometheus' query engine over series on standard input, one case a line: the answers are written the same way.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// Case is series with their samples, and queries asked at a second.
type Case struct {
	Series  []Series `json:"series"`
	At      float64  `json:"at"`
	Queries []string `json:"queries"`
}
type Series struct {
	Labels  map[string]string `json:"labels"`
	Samples [][2]*float64     `json:"samples"`
}

type querier struct{ series []Series }

func (q querier) Select(_ context.Context, _ bool, h *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	var out []storage.Series
	for _, s := range q.series {
		ls := labels.FromMap(s.Labels)
		ok := true
		for _, m := range ms {
			if !m.Matches(ls.Get(m.Name)) {
				ok = false
			}
		}
		if !ok {
			continue
		}
		var smp []sample
		for _, x := range s.Samples {
			v := math.Float64frombits(value.StaleNaN)
			if x[1] != nil {
				v = *x[1]
			}
			smp = append(smp, sample{int64(*x[0] * 1000), v})
		}
		out = append(out, &storage.SeriesEntry{Lset: ls, SampleIteratorFn: func(chunkenc.Iterator) chunkenc.Iterator { return storage.NewListSeriesIterator(list(smp)) }})
	}
	return &set{out, -1}
}
func (q querier) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}
func (q querier) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}
func (q querier) Close() error { return nil }

type set struct {
	all []storage.Series
	at  int
}

func (s *set) Next() bool                        { s.at++; return s.at < len(s.all) }
func (s *set) At() storage.Series                { return s.all[s.at] }
func (s *set) Err() error                        { return nil }
func (s *set) Warnings() annotations.Annotations { return nil }

func main() {
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute})
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<26)
	for in.Scan() {
		var c Case
		if err := json.Unmarshal(in.Bytes(), &c); err != nil {
			panic(err)
		}
		var answers []any
		for _, query := range c.Queries {
			q := storage.QueryableFunc(func(int64, int64) (storage.Querier, error) { return querier{c.Series}, nil })
			asked, err := engine.NewInstantQuery(context.Background(), q, nil, query, time.UnixMilli(int64(c.At*1000)))
			if err != nil {
				answers = append(answers, err.Error())
				continue
			}
			res := asked.Exec(context.Background())
			if res.Err != nil {
				answers = append(answers, res.Err.Error())
				continue
			}
			found := [][2]any{}
			v, err := res.Vector()
			if err != nil {
				panic(err)
			}
			for _, s := range v {
				text := strconv.FormatFloat(s.F, 'g', 12, 64)
				if math.IsNaN(s.F) {
					text = "NaN"
				}
				found = append(found, [2]any{s.Metric.Map(), text})
			}
			answers = append(answers, found)
		}
		text, _ := json.Marshal(answers)
		fmt.Println(string(text))
	}
}

type sample struct {
	t int64
	v float64
}

func (c sample) T() int64                      { return c.t }
func (c sample) F() float64                    { return c.v }
func (c sample) H() *histogram.Histogram       { return nil }
func (c sample) FH() *histogram.FloatHistogram { return nil }
func (c sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (c sample) Copy() chunks.Sample           { return c }

type list []sample

func (l list) Get(i int) chunks.Sample { return l[i] }
func (l list) Len() int                { return len(l) }
