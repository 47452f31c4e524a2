// Metrics as monitors read them: by a parser that knows nothing of this project.
// @ts-expect-error -- the parser has no types
import untyped from 'parse-prometheus-text-format'

const parse = untyped as (text: string) => Family[]

/** One series. */
export interface Sample {
  readonly labels?: Readonly<Record<string, string>>
  readonly value: string
}

interface Family {
  readonly name: string
  readonly metrics: readonly Sample[]
}

/** The samples of a text of metrics, by the name of the sample. */
export type Samples = ReadonlyMap<string, readonly Sample[]>

/**
 * Reads the text of metrics, of either format. The parser joins the series of a histogram into one, so it is not told
 * which families are histograms.
 */
export function readMetrics(text: string): Samples {
  const plain = text.replaceAll(/^# (TYPE .* histogram|UNIT .*|EOF)\n/gm, '')
  const found = new Map<string, Sample[]>()
  for (const { name, metrics } of parse(plain)) found.set(name, [...(found.get(name) ?? []), ...metrics])
  return found
}

/** The sample with these labels, as a number. */
export function figureOf(
  samples: Samples,
  name: string,
  labels: Readonly<Record<string, string>> = {},
): number | undefined {
  const found = samples
    .get(name)
    ?.find((each) => Object.entries(labels).every(([label, value]) => each.labels?.[label] === value))
  return found && Number(found.value.replace('+Inf', 'Infinity'))
}
