// The findings of preflight, and its estimates of memory and FLOPs.
import type { Figures } from "../api/types.ts";
import { bytes, compact, percent } from "../display/format.ts";

export interface FindingData {
  code: string;
  severity: string;
  pointer?: string;
  message: string;
  data?: unknown;
}
export type FigureData = Partial<Figures>;

export function Findings({ findings }: { findings: readonly FindingData[] }) {
  if (findings.length === 0) return <p class="callout good">No problems found.</p>;
  return (
    <ul class="plain stack" aria-label="Findings">
      {findings.map((finding, index) => (
        <li key={index} class={`callout ${finding.severity}`}>
          <strong>{finding.severity}</strong> {finding.message}{" "}
          {finding.pointer && <code class="muted">{finding.pointer}</code>}
        </li>
      ))}
    </ul>
  );
}

export function FigureList({ figures }: { figures: FigureData }) {
  return (
    <dl class="facts" aria-label="Estimated size">
      <Fact name="Parameters" value={compact(figures.parameters)} />
      <Fact name="FLOPs per step" value={compact(figures.flops_per_step)} />
      <Fact name="Computed in 16 bits or fewer" value={percent(figures.share_in_16_bit)} />
      {figures.share_in_8_bit ? <Fact name="Computed in float8" value={percent(figures.share_in_8_bit)} /> : null}
      {Object.entries(figures.memory ?? {}).map(([policy, memory]) => (
        <Fact key={policy} name={`Memory in ${policy}`} value={bytes(memory.total)} />
      ))}
    </dl>
  );
}

function Fact({ name, value }: { name: string; value: string }) {
  return <div><dt>{name}</dt><dd>{value}</dd></div>;
}
