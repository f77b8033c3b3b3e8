// The parts of Grafana's own types (@grafana/schema, Apache-2.0, four major versions) that
// our dashboards are held against: which fields there are, at every depth, and which values
// they take. What is left out is fine, since Grafana fills it in. test/e2e/grafana_test.go
// says where the files of a version are ("grafana/...") and compiles our dashboards with it.
import type * as D from 'grafana/dashboard';
import type * as C from 'grafana/common';
import type * as Timeseries from 'grafana/timeseries';
import type * as Stat from 'grafana/stat';
import type * as Table from 'grafana/table';
import type * as Bars from 'grafana/bargauge';
import type { PrometheusDataQuery } from 'grafana/query'; // of 10.4, the last that published it

/** Known is T as JSON has it: enumerations by their values, everything optional. */
type Known<T> = T extends string
  ? `${T}`
  : T extends number
    ? number extends T
      ? T
      : `${T}` extends `${infer N extends number}`
        ? N
        : T
    : T extends Array<infer U>
      ? Array<Known<U>>
      : T extends object
        ? { [K in keyof T]?: Known<T[K]> }
        : T;

type Source = { type: 'prometheus'; uid: string };
type Query = Known<Omit<PrometheusDataQuery, 'datasource'>> & { expr: string; refId: string; datasource: Source };

type None = Record<string, never>;
type Panel<Kind extends string, Options, Field> = Known<Omit<D.Panel, 'type' | 'targets' | 'options' | 'fieldConfig' | 'datasource'>> & {
  type: Kind;
  datasource: Source;
  targets: Query[];
  options: Known<Options>;
  fieldConfig: {
    defaults: Known<Omit<D.FieldConfig, 'custom' | 'links'>> & { custom: Known<Field>; links?: { title: string; url: string; targetBlank?: boolean }[] };
    overrides: [];
  };
};
type Chart =
  | Panel<'timeseries', Timeseries.Options, C.GraphFieldConfig>
  | Panel<'stat', Stat.Options, None>
  | Panel<'table', Table.Options, C.TableFieldOptions>
  | Panel<'bargauge', Bars.Options, None>;
// A row that is folded holds its panels.
type Row = Known<Omit<D.RowPanel, 'type' | 'panels'>> & { type: 'row'; panels: Chart[] };
// Grafana writes definition too, and leaves it out of its types.
type Variable = Known<Omit<D.VariableModel, 'datasource' | 'query'>> & {
  type: string;
  name: string;
  datasource?: Source;
  query: string | { query: string; refId: string };
  definition?: string;
};

export type Dashboard = Known<Omit<D.Dashboard, 'panels' | 'templating' | 'annotations'>> & {
  annotations: { list: [] };
  templating: { list: Variable[] };
  panels: (Row | Chart)[];
};
