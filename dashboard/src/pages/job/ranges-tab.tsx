// The tab with the ranges of a job's layers: what a number format would do to them.
import { useState } from "preact/hooks";
import { queryString } from "../../router.ts";
import { usePoll } from "../../api/use-poll.ts";
import type { FormatReport, Ranges } from "../../api/types.ts";
import { CopyButton } from "../../components/buttons.tsx";
import { EmptyState, LoadState } from "../../components/load-state.tsx";
import { heatMap, scaleRange, TENSOR_KINDS, type TensorKind } from "../../display/exponents.ts";
import { integer, lossScale, number, percent, power } from "../../display/format.ts";
import { HeatMapPlot } from "./heat-map.tsx";
import type { TabProps } from "./tab-props.ts";

const FORMATS = [
  ["float16", "float16"], ["bfloat16", "bfloat16"], ["float8_e4m3fn", "float8 e4m3"], ["float8_e5m2", "float8 e5m2"],
] as const;
const MAX_SAMPLES = 50;
const ROWS = 12;
const MIN_POLL_MS = 10_000;
const HEADINGS = ["Layer", "Tensor", "Computes in", "Underflow", "Overflow", "Error", "Scales that suit", "Problem"];

export function RangesTab({ job, intervalMs, pulse }: TabProps) {
  const [format, setFormat] = useState<string>(FORMATS[0][0]);
  const query = queryString({ format, max_samples: MAX_SAMPLES });
  const ranges = usePoll<Ranges>(`/jobs/${job.id}/ranges?${query}`, Math.max(intervalMs, MIN_POLL_MS), pulse);
  return (
    <LoadState what="ranges" of={ranges}>
      {(loaded) =>
        loaded.report ? (
          <LoadedRanges ranges={loaded} report={loaded.report} format={format} onFormat={setFormat} />
        ) : (
          <EmptyState title="No samples yet">
            Long jobs are sampled on their own. For a short one, set telemetry.ranges.max_time_share to null in the spec.
          </EmptyState>
        )
      }
    </LoadState>
  );
}

function LoadedRanges(props: {
  ranges: Ranges;
  report: FormatReport;
  format: string;
  onFormat: (format: string) => void;
}) {
  const { ranges, report } = props;
  const [kind, setKind] = useState<TensorKind>("activations");
  const [chosen, setChosen] = useState<number | null>(null);
  const last = ranges.samples.length - 1;
  const index = Math.min(chosen ?? last, last);
  const sample = ranges.samples[index];
  const map = sample && heatMap(sample, kind, report.window);
  const scales = Object.values(sample?.scales ?? {}).map(lossScale).join(", ");
  const where = sample ? `step ${integer(sample.step)}, loss scale ${scales}` : "";
  return (
    <div class="stack">
      <p role="status" aria-label="Result"><strong>{report.sentence}</strong></p>
      <div class="filters">
        <Choice label="Number format" value={props.format} options={FORMATS} onChange={props.onFormat} />
        <Choice label="Tensors" value={kind} options={TENSOR_KINDS} onChange={(value) => setKind(value as TensorKind)} />
        <label class="field grow">
          <span>Sample {index + 1} of {last + 1}: {where}</span>
          <input
            type="range"
            min={0}
            max={last}
            value={index}
            aria-valuetext={where}
            onInput={(event) => setChosen(Number(event.currentTarget.value))}
          />
        </label>
      </div>
      {map ? (
        <HeatMapPlot map={map} label={`Exponents of ${kind.replaceAll("_", " ")} by layer at ${where}`} />
      ) : (
        <EmptyState title="No such tensors">No layer has them in this sample.</EmptyState>
      )}
      <p class="muted">
        The darker, the more of a layer's values have this exponent. <span class="heat-key normal" /> kept,{" "}
        <span class="heat-key subnormal" /> kept with fewer bits, <span class="heat-key outside" /> beyond the largest or
        below the smallest number of {report.number_format}
        {kind === "activations" ? "." : ", multiplied by the loss scale."}
      </p>
      <Repair report={report} />
      <WorstLayers report={report} />
    </div>
  );
}

function Choice(props: {
  label: string;
  value: string;
  options: readonly (readonly [string, string])[];
  onChange: (value: string) => void;
}) {
  return (
    <label class="field">
      <span>{props.label}</span>
      <select value={props.value} onChange={(event) => props.onChange(event.currentTarget.value)}>
        {props.options.map(([value, title]) => <option key={value} value={value}>{title}</option>)}
      </select>
    </label>
  );
}

/** The lines for the spec that repair the problems, to copy. */
function Repair({ report }: { report: FormatReport }) {
  const overrides = report.overrides.map((one) => `    - {layers: '${one.layers}', dtype: ${one.dtype}}`);
  const lossScaleFields = Object.entries(report.loss_scale ?? {}).map(([name, value]) => `${name}: ${String(value)}`).join(", ");
  const lines = [
    ...(overrides.length > 0 ? ["precision:", "  overrides:", ...overrides] : []),
    ...(lossScaleFields ? [`loss_scale: {${lossScaleFields}}`] : []),
  ];
  if (lines.length === 0) return null;
  return (
    <div class="stack">
      <div class="row"><CopyButton label="Copy for the spec" text={lines.join("\n")} /></div>
      <pre class="code" tabIndex={0} role="region" aria-label="What repairs it">{lines.join("\n")}</pre>
    </div>
  );
}

/** The problem of a tensor; of gradients that another loss scale suits, what is wrong with the one in use. */
function problemOf({ problem, lowest, highest, scale_exponent }: FormatReport["tensors"][number]): string | null {
  if (problem || lowest === null || highest === null) return problem;
  if (scale_exponent > highest) return "loss scale too high";
  return scale_exponent < lowest ? "loss scale too low" : null;
}

function WorstLayers({ report }: { report: FormatReport }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Worst layers">
      <table class="table" aria-label="Worst layers">
        <thead><tr>{HEADINGS.map((heading) => <th key={heading} scope="col">{heading}</th>)}</tr></thead>
        <tbody>
          {report.tensors.slice(0, ROWS).map((one) => (
            <tr key={`${one.network}/${one.layer}/${one.tensor}`}>
              <td class="break">{one.layer}</td>
              <td>{one.tensor.replaceAll("_", " ")}{one.scale_exponent !== 0 && <span class="muted"> × {power(one.scale_exponent)}</span>}</td>
              <td>{one.dtype}</td>
              <td class="number">{percent(one.underflow)}</td>
              <td class="number">{percent(one.overflow)}</td>
              <td class="number">{number(one.error, 2)}</td>
              <td>{one.tensor === "activations" ? "–" : scaleRange(one.lowest, one.highest)}</td>
              <td class={problemOf(one) ? "bad" : "muted"}>{problemOf(one) ?? "none"}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
