// The cause of a skipped step that was found during the training, laid out for reading.
import type { JsonObject } from "../../../api/types.ts";
import { countsText, type Counts, type VariableRow } from "../../../display/explanations.ts";
import { integer } from "../../../display/format.ts";
import { FoldedTable } from "./folded-table.tsx";

interface FirstLayer extends Counts { layer: string | null; kind?: string; part?: "loss"; pass: string; dtype?: string; variable?: string }
interface Batch { epoch: number; batch: number; total: number; bad_examples?: number[]; bad_total?: number }
interface Facts { first_layer: FirstLayer | null; variables: VariableRow[]; variables_left_out: number; batch: Batch }

/** Nothing for an event without a cause. */
export function OverflowFacts({ data }: { data: JsonObject }) {
  if (!Array.isArray(data["variables"]) || typeof data["batch"] !== "object") return null;
  const facts = data as unknown as Facts;
  const { batch, first_layer: first } = facts;
  return (
    <div class="stack">
      {first && (
        <p>
          First not finite, in the {first.pass} pass: {first.part === "loss" && "a loss of "}<strong>{first.variable ?? first.layer ?? "the loss"}</strong>
          {first.kind && ` (${first.kind}${first.dtype ? `, ${first.dtype}` : ""})`}
          {first.largest !== undefined && `: ${countsText(first)}`}
        </p>
      )}
      <p>
        Epoch {batch.epoch}, batch {batch.batch}, {integer(batch.total)} examples
        {batch.bad_examples && <>; not finite: training examples {batch.bad_examples.slice(0, 8).join(", ")}{(batch.bad_total ?? 0) > 8 && ` and ${batch.bad_total! - 8} more`}</>}
      </p>
      <FoldedTable
        title="Gradients that are not finite"
        heads={["Variable", "Elements", "Gradient"]}
        rows={facts.variables}
        leftOut={facts.variables_left_out}
        cells={(row) => [row.variable, integer(row.size), countsText(row)]}
      />
    </div>
  );
}
