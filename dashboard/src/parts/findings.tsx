// What preflight says of a spec: findings, and the job's size.
import type { Figures } from "../api/types.ts";
import { bytes, compact, percent } from "../words/format.ts";

export interface FindingFacts {
  code: string;
  severity: string;
  pointer?: string;
  message: string;
  data?: unknown;
}
export type FigureFacts = Partial<Figures>;

export function Findings({ findings }: { findings: readonly FindingFacts[] }) {
  if (findings.length === 0) return <p class="callout good">Nothing speaks against it.</p>;
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

export function FigureList({ figures }: { figures: FigureFacts }) {
  return (
    <dl class="facts" aria-label="Size of the job">
      <Fact name="Parameters" value={compact(figures.parameters)} />
      <Fact name="FLOPs per step" value={compact(figures.flops_per_step)} />
      <Fact name="Share in 16 bit" value={percent(figures.share_in_16_bit)} />
      {Object.entries(figures.memory ?? {}).map(([policy, memory]) => (
        <Fact key={policy} name={`Memory in ${policy}`} value={bytes(memory.total)} />
      ))}
    </dl>
  );
}

function Fact({ name, value }: { name: string; value: string }) {
  return <div><dt>{name}</dt><dd>{value}</dd></div>;
}
