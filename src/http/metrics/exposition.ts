/** The text of metrics: the format of Prometheus, version 0.0.4, and OpenMetrics 1.0. */
import { type Counted, SECONDS, type Times } from '../../engine/events/counted.ts'

/** The media type of Prometheus. */
export const PROMETHEUS = 'text/plain; version=0.0.4; charset=utf-8'
/** The media type of OpenMetrics. */
export const OPEN_METRICS = 'application/openmetrics-text; version=1.0.0; charset=utf-8'

/** One metric with all its series. The name of a counter is that without `_total`. */
export type Family = {
  readonly name: string
  readonly help: string
  /** The names of the labels of each series, in their order. */
  readonly labels: readonly string[]
} & (
  | { readonly kind: 'counter' | 'gauge'; readonly series: readonly Counted<number>[] }
  | {
      readonly kind: 'histogram'
      readonly series: readonly Counted<Times>[]
      /** The bounds of its classes, in s. The last class has none. */
      readonly bounds: readonly number[]
    }
)

type Series = readonly Counted<number>[]

/** A sum that only grows. @param name without `_total` */
export function counter(name: string, help: string, labels: readonly string[], series: Series): Family {
  return { kind: 'counter', name, help, labels, series }
}

/** A figure that rises and falls. */
export function gauge(name: string, help: string, labels: readonly string[], series: Series): Family {
  return { kind: 'gauge', name, help, labels, series }
}

/** A figure without labels. */
export function single(name: string, help: string, value: number | null): Family {
  return gauge(name, help, [], value === null ? [] : [{ labels: [], value }])
}

/** Times by class. */
export function histogram(
  name: string,
  help: string,
  labels: readonly string[],
  series: readonly Counted<Times>[],
  bounds: readonly number[] = SECONDS,
): Family {
  return { kind: 'histogram', name, help, labels, series, bounds }
}

/** Writes metrics as text. @param isOpen in OpenMetrics */
export function expose(families: readonly Family[], isOpen: boolean): string {
  const lines = families.flatMap((family) => {
    const named = family.kind === 'counter' && !isOpen ? `${family.name}_total` : family.name
    const unit = isOpen && family.name.endsWith('_seconds') ? [`# UNIT ${named} seconds`] : []
    const help = family.help.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')
    return [`# HELP ${named} ${help}`, `# TYPE ${named} ${family.kind}`, ...unit, ...samplesOf(family)]
  })
  return `${[...lines, ...(isOpen ? ['# EOF'] : [])].join('\n')}\n`
}

function samplesOf(family: Family): string[] {
  const { name, labels } = family
  if (family.kind === 'histogram')
    return family.series.flatMap((series) => timesOf(name, labels, series, family.bounds))
  const sample = family.kind === 'counter' ? `${name}_total` : name
  return family.series.map((series) => `${sample}${labelled(labels, series.labels)} ${figure(series.value)}`)
}

function timesOf(
  name: string,
  names: readonly string[],
  { labels, value: { classes, count, sum } }: Counted<Times>,
  bounds: readonly number[],
): string[] {
  let below = 0
  const buckets = [...bounds, Infinity].map((bound, at) => {
    below += classes[at] ?? 0
    return `${name}_bucket${labelled([...names, 'le'], [...labels, figure(bound)])} ${below}`
  })
  const of = labelled(names, labels)
  return [...buckets, `${name}_sum${of} ${figure(sum)}`, `${name}_count${of} ${count}`]
}

function labelled(names: readonly string[], values: readonly string[]): string {
  if (names.length === 0) return ''
  return `{${names.map((name, at) => `${name}="${escaped(values[at] ?? '')}"`).join(',')}}`
}

/** Other control characters are legal, but no reader shows them. */
function escaped(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')
}

function figure(value: number): string {
  if (value === Infinity) return '+Inf'
  return value === -Infinity ? '-Inf' : String(value)
}
