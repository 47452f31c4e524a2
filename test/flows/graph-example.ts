// Graphs that the compiler accepts, and lines that it refuses. Nothing here runs: types.test.ts compiles it.
import { input, limit, task } from '../../src/exports/index.ts'
import { graph } from '../../src/flows/graph/graph.ts'
import type { Failed } from '../../src/flows/graph/types.ts'
import type { Path } from '../../src/flows/shared/step-limits.ts'

const openai = limit('openai', { rate: 500, per: '1m' })
const perTenant = limit('openai-by-tenant', { rate: 50, per: '1m', burst: 5 })
const perCustomer = limit('customer', { concurrency: 1 })
const ship = task('ship', input<{ sku: string; grams: number }>(), {
  limits: [limit('carrier', { every: '1s' })],
  run: ({ sku }) => ({ label: `L-${sku}`, on: new Date(0) }),
})
const thank = task('thank', input<{ order: string }>(), { run: () => undefined })

/** A review with every kind of step. */
const review = graph('code.review', input<{ pr: number; tenant: string; model: { name: string } }>(), {
  onFailure: 'fast',
  hold: [perCustomer.by((o) => o.tenant)],
  key: (o) => String(o.pr),
})
  .step('diff', ({ input: { pr } }) => ({ files: [`${pr}.ts`], author: { id: pr, name: 'ann' }, at: new Date(0) }))
  .after('diff')
  .step('lint', { onFailure: 'continue' }, ({ diff }) => ({ issues: diff.files.length }))
  .after('diff', 'lint')
  .step(
    'llm',
    {
      limits: [
        openai,
        { limit: perTenant, by: 'input.tenant', weight: 'input.pr' },
        perTenant.by(({ diff }) => diff.author.id),
      ],
      retry: { attempts: 3 },
    },
    ({ input: { model }, diff, lint }) => {
      const issues: number | Failed = 'failed' in lint ? lint : lint.issues
      const at: string = diff.at
      return { text: `${model.name} ${JSON.stringify(issues)} ${at}`, tokens: 12 }
    },
  )
  .undo('llm', { limits: [openai] }, ({ llm }) => llm.tokens)
  .after('diff', 'llm')
  .each(({ diff }) => diff.files)
  .step(
    'post',
    { limits: [openai.by(({ item, diff }) => `${item} ${diff.author.id}`), { limit: perTenant, by: 'item' }] },
    ({ item, llm, index }) => ({ id: `${item}#${index}`, body: llm.text }),
  )
  .after('post')
  .signal('approve', input<{ by: string }>(), { within: '2d' })
  .after('approve')
  .step('merge', { when: ({ approve }) => approve !== null }, ({ approve }) => ({ by: approve?.by ?? 'nobody' }))
  .after('merge')
  .call('thank', thank, ({ merge }) => ({ order: merge?.by ?? '' }))
  .sleep('cool', '1h')
  .after('merge')
  .step('big', { when: { path: 'input.pr', op: 'gt', value: 100 } }, () => 1)
  .output(({ post, merge }) => ({ posted: post.length, merged: merge !== undefined }))

/** Each lives as long as its flow. */
export async function accepted(): Promise<number> {
  const reviewed = await review.start({ pr: 1, tenant: 'acme', model: { name: 'x' } })
  await review.signal(reviewed.id, 'approve', { by: 'ann' })
  await review.signal({ key: '1' }, 'approve', { by: 'ann' }, { once: 'e1' })
  const nested = graph('outer', input<{ pr: number }>())
    .child('inner', review, ({ input: { pr } }) => ({ pr, tenant: 'acme', model: { name: 'x' } }))
    .after('inner')
    .step('count', ({ inner }) => inner.posted + 1)
    .output(({ count }) => count)
  const counted: number = await (await nested.start({ pr: 1 })).result()
  return (await reviewed.result()).posted + counted
}

/** Paths that there are. */
export const paths: Path<{ input: { a: { b: string; list: string[] }; n: number } }>[] = ['input.a.b', 'input.n']

const g = graph('g', input<{ pr: number; who: { id: string; tags: string[] } }>()).step('diff', ({ input: i }) => ({
  files: [`${i.pr}`],
  n: 1,
}))

/** Each of these is refused, for the reason that the line before says. */
export function refused(): void {
  // @ts-expect-error TS2345: a step that is declared later, or never
  g.after('lint').step('llm', () => 1)
  // @ts-expect-error TS2339: what a step does not come after, it does not see
  g.step('llm', {}, ({ diff }) => void diff)
  // @ts-expect-error TS2345: a name that is taken
  g.step('diff', () => 1)
  // @ts-expect-error TS2322: a path that is not there
  g.after('diff').step('llm', { limits: [{ limit: openai, by: 'input.tenant' }] }, () => 1)
  // @ts-expect-error TS2322: a path that ends at a list
  g.after('diff').step('llm', { limits: [{ limit: openai, by: 'input.who.tags' }] }, () => 1)
  // @ts-expect-error TS2322: a weight that is a text
  g.after('diff').step('llm', { limits: [{ limit: openai, by: 'input.pr', weight: 'input.who.id' }] }, () => 1)
  // @ts-expect-error TS2769: a key that is an object
  g.after('diff').step('llm', { limits: [openai.by(({ input: i }) => i.who)] }, () => 1)
  // @ts-expect-error TS2322: a list that is a number
  g.after('diff').each(({ diff }) => diff.n)
  // @ts-expect-error TS2322: a task's input of the wrong type
  g.after('diff').call('ship', ship, ({ diff }) => ({ sku: diff.n, grams: 1 }))
  const maybe = g.after('diff').step('maybe', { when: () => false }, () => ({ x: 1 }))
  // @ts-expect-error TS18048: a skipped step may have come to nothing
  maybe.after('maybe').step('next', ({ maybe: it }) => it.x)
  // @ts-expect-error TS2345: a signal that the graph does not wait for
  void review.signal('id', 'reject', {})
  // Five more.
  // @ts-expect-error TS2339: an output reads a step that is not there
  g.output(({ lint }) => void lint)
  // @ts-expect-error TS2339: a step of an item sees the item only behind each
  g.after('diff').step('one', ({ item }) => void item)
  // @ts-expect-error TS2345: what undoes a step that is not there
  g.undo('lint', {}, () => 1)
  const lint = g.after('diff').step('lint', { onFailure: 'continue' }, ({ diff }) => ({ issues: diff.n }))
  // @ts-expect-error TS2339: a step that may fail hands on its failure
  lint.after('lint').step('next', ({ lint: it }) => void it.issues)
  // @ts-expect-error TS2739: an input of a child that lacks a field
  g.child('inner', review, () => ({ pr: 1 }))
  // @ts-expect-error TS2322: an option of a step that it cannot have
  g.step('x', { onFailure: 'ignore' }, () => 1)
  // @ts-expect-error TS2322: a condition on what the step does not see
  g.step('x', { when: { path: 'diff.n', op: 'eq', value: 1 } }, () => 1)
  // @ts-expect-error TS2554: the start of a graph without its input
  void review.start()
  void g.output(({ diff }) => diff.n)
}
