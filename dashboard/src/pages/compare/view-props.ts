// The properties of the views of a comparison.
import type { Comparison } from "../../api/types.ts";
import type { ComparedColumn } from "./columns.ts";
import { bestOrder, isHigherBetter } from "./columns.ts";
import type { CompareQuery } from "./query.ts";

export interface CompareViewProps {
  comparison: Comparison;
  columns: readonly ComparedColumn[];
  selection: CompareQuery;
  onChange: (changes: Partial<CompareQuery>) => void;
}

export interface Ranking {
  column: ComparedColumn;
  higherIsBetter: boolean;
  /** The indices of the jobs, the best one first. */
  order: readonly number[];
}

/** The order of the jobs by the chosen column; null without one. */
export function rankingOf({ columns, selection }: CompareViewProps): Ranking | null {
  const column = columns.find(({ key, isNumeric }) => key === selection.best && isNumeric);
  if (!column) return null;
  const higherIsBetter = selection.order === "" ? isHigherBetter(column.key) : selection.order === "highest";
  return { column, higherIsBetter, order: bestOrder(column, higherIsBetter) };
}
