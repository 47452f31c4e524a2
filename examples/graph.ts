// Steps with dependencies, known before they run. Run it with: npx node examples/graph.ts
import { input, limit, Sluice } from '../src/exports/index.ts'
import { graph } from '../src/exports/flows.ts'

const model = limit('model', { rate: 100, per: '1s' })
const perTenant = limit('tenant-model', { rate: 20, per: '1s', burst: 5 })

const review = graph('code.review', input<{ pr: number; tenant: string }>())
  .step('diff', ({ input: { pr } }) => ({ files: [`${pr}/a.ts`, `${pr}/b.ts`] }))
  .after('diff')
  .step('lint', { onFailure: 'continue' }, ({ diff }) => ({ issues: diff.files.length }))
  .after('diff')
  .each(({ diff }) => diff.files)
  .step(
    'comments',
    { limits: [model, { limit: perTenant, by: 'input.tenant' }] },
    ({ item, index }) => `${index}: ${item} reads well`,
  )
  .after('lint', 'comments')
  .step('post', ({ lint, comments }) => ({ comments: comments.length, issues: 'failed' in lint ? null : lint.issues }))
  .output(({ post }) => post)

const sluice = new Sluice({ store: 'sqlite::memory:', tasks: [], workflows: [review] })
await sluice.start()
const flow = await review.start({ pr: 17, tenant: 'acme' })
console.log(JSON.stringify(await flow.result()))
const seen = await sluice.flows.inspect(flow.id)
console.log(seen?.steps.map(({ name, state }) => `${name} ${state}`).join(', '))
await sluice.stop()
