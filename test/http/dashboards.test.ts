// The dashboard for Grafana and the alerts for Prometheus ask for metrics that a server has.
import { readFileSync } from 'node:fs'
import { parseYaml } from '@redocly/openapi-core'
import { describe, expect, test } from 'vitest'
import { HttpHarness } from './http-harness.ts'

const read = (file: string): string => readFileSync(new URL(`../../deploy/${file}`, import.meta.url), 'utf8')

interface Panel {
  readonly id: number
  readonly type: string
  readonly title: string
  readonly gridPos: Readonly<Record<'x' | 'y' | 'w' | 'h', number>>
  readonly targets?: readonly { readonly expr: string; readonly legendFormat: string }[]
}
const { panels } = JSON.parse(read('grafana-dashboard.json')) as { panels: readonly Panel[] }
interface Rule {
  readonly alert: string
  readonly expr: string
  readonly labels: { readonly severity: string }
  readonly annotations: { readonly summary: string; readonly action: string }
}
const { groups } = parseYaml(read('alerts.yml')) as { groups: readonly { rules: readonly Rule[] }[] }
const rules = groups.flatMap((group) => group.rules)
const expressions = [
  ...panels.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => ({ name: title, expr }))),
  ...rules.map(({ alert, expr }) => ({ name: alert, expr })),
]
const ENDS = { counter: ['_total'], gauge: [''], histogram: ['_bucket', '_sum', '_count'] } as const

/** The names of all samples that a server can have, with the labels of those that it has. */
async function served(): Promise<ReadonlyMap<string, ReadonlySet<string>>> {
  const d = await HttpHarness.open({
    http: { limits: { limits: { crm: '1/h' }, types: { work: { limits: [{ limit: 'crm' }] } } } },
  })
  await d.app.define()
  await d.push()
  await d.push()
  for (const id of await d.fetch()) await d.ack(id)
  const answer = await d.app.fetch(
    new Request('http://server/metrics', { headers: { Accept: 'application/openmetrics-text' } }),
  )
  const text = await answer.text()
  const names = [...text.matchAll(/^# TYPE (\w+) (\w+)$/gm)].flatMap(([, name = '', kind = '']) =>
    ENDS[kind as keyof typeof ENDS].map((end) => name + end),
  )
  return new Map(
    names.map((name) => [
      name,
      new Set(
        [...text.matchAll(new RegExp(`^${name}\\{(.*)\\} `, 'gm'))].flatMap(([, labels = '']) =>
          [...labels.matchAll(/(\w+)=/g)].map(([, label = '']) => label),
        ),
      ),
    ]),
  )
}

describe('the dashboard and the alerts', () => {
  test('name only metrics and labels that a server has', async () => {
    const known = await served()
    const seen = new Set<string>()
    for (const { name, expr } of expressions) {
      const named = [...expr.matchAll(/\b((?:sluice|ojs)_\w+)(?:\{([^}]*)\})?/g)]
      if (!expr.includes('up{')) expect([name, named.length > 0]).toEqual([name, true])
      for (const [, metric = '', labels = ''] of named) {
        expect([name, metric, known.has(metric)]).toEqual([name, metric, true])
        seen.add(metric)
        for (const [, label = ''] of labels.matchAll(/(\w+)=/g))
          if (label !== 'job') expect([name, metric, ...(known.get(metric) ?? [])]).toContain(label)
      }
      const grouped = [...expr.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, labels = '']) => labels.split(', '))
      const all = new Set(named.flatMap(([, metric = '']) => [...(known.get(metric) ?? [])]))
      // A server without trouble has no series of these.
      const isSilent = named.some(([, metric = '']) =>
        /store_errors|backend_up|throttled|discarded|failed/.test(metric),
      )
      for (const label of grouped) if (label !== 'instance' && !isSilent) expect([name, ...all]).toContain(label)
    }
    const shown = [...known.keys()].filter((name) => name.startsWith('sluice_') && !/_(sum|count)$/.test(name))
    expect(shown.filter((name) => !seen.has(name))).toEqual([])
  })

  test('have balanced expressions, a remedy for each alert, and panels that do not overlap', () => {
    for (const { name, expr } of expressions)
      for (const pair of ['()', '{}', '[]'])
        expect(expr.split(pair[0] as string).length, `${name}: ${expr}`).toBe(expr.split(pair[1] as string).length)
    expect(new Set(rules.map(({ alert }) => alert)).size).toBe(rules.length)
    for (const { labels, annotations } of rules) {
      expect(['critical', 'warning']).toContain(labels.severity)
      expect(annotations.summary.length * annotations.action.length).toBeGreaterThan(0)
    }
    const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, at) => `${x + (at % w)} ${y + Math.floor(at / w)}`),
    )
    expect(new Set(cells).size).toBe(cells.length)
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length)
  })
})
