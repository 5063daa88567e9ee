// Names of jobs in a legend, shortened to what differs between them.

interface NamedJob {
  id: string;
  name: string;
}

/** After a space, comma, slash, colon or equals sign, or a hyphen that is not part of 1e-3. */
const AFTER_SEPARATOR = /(?<=[\s,/:=]|(?<!\de)-)/;

/**
 * The names without the words that all of them begin or end with; ids tell equal names apart.
 *
 * "digits policy=float32" and "digits policy=mixed_float16" become "float32" and "mixed_float16".
 */
export function shortNames(jobs: readonly NamedJob[]): string[] {
  let words = jobs.map(({ name }) => name.split(AFTER_SEPARATOR));
  if (jobs.length > 1) words = withoutCommonEnd(withoutCommonStart(words));
  const names = words.map((parts, index) => parts.join("").replace(/[\s,/:=-]+$/, "") || jobs[index]!.name);
  const isUnique = (name: string) => names.filter((one) => one === name).length === 1;
  return names.map((name, index) => (isUnique(name) ? name : `${name} ${jobs[index]!.id.slice(0, 6)}`));
}

/** Every list keeps at least one word. */
function withoutCommonStart(lists: string[][]): string[][] {
  const [first = []] = lists;
  const shortest = Math.min(...lists.map((list) => list.length));
  let common = 0;
  while (common < shortest - 1 && lists.every((list) => list[common] === first[common])) common += 1;
  return lists.map((list) => list.slice(common));
}

function withoutCommonEnd(lists: string[][]): string[][] {
  return withoutCommonStart(lists.map((list) => list.toReversed())).map((list) => list.toReversed());
}
