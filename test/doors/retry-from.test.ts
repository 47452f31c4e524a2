// The step from which a flow is retried: one rule, whichever door the retry comes in by.
import { describe, expect, test } from 'vitest'
import { workflow } from '../../src/exports/flows.ts'
import { input, NonRetryable } from '../../src/exports/index.ts'
import { HttpHarness } from '../http/http-harness.ts'
import { everyStore } from '../stores.ts'

const stores = await everyStore('the step of a retry at every door')
const MONITOR = { headers: { 'X-Sluice-Request': '1' } }
// The longest name of a step is 200, and a repeated one has its number behind it.
const LONGEST = 'x'.repeat(255)

async function open(url: string) {
  const fails = workflow('fails', input<null>(), {
    defaults: { retry: { attempts: 1 } },
    run: (_, flow) =>
      flow.step('one', () => {
        throw new NonRetryable('it is broken')
      }),
  })
  const d = await HttpHarness.open({
    engine: { store: url, workflows: [fails], queues: { default: { concurrency: 1 } } },
  })
  const { id } = await fails.start(null)
  await d.clock.advance('1s')
  expect((await d.sluice.flows.get(id))?.state).toBe('failed')
  return { d, id }
}

describe.each(stores)('on $name', (store) => {
  test.each([
    ['an empty text', ''],
    ['a text that is too long', `${LONGEST}x`],
    ['a text that no store can keep', 'a\0b'],
    ['a number', 7],
  ])('%s is refused in code, over HTTP and by the monitor', async (_, from) => {
    const { d, id } = await open(store.create())
    await expect(d.sluice.flows.retry(id, { from: from as string })).rejects.toMatchObject({ code: 'option.invalid' })
    for (const path of [`/flows/v1/flows/${id}/retry`, `/monitor/v1/flows/${id}/retry`])
      expect(await d.post(path, { from }, MONITOR)).toMatchObject({
        status: 400,
        body: { error: { code: 'invalid_request', details: { issues: [{ path: 'from' }] } } },
      })
    expect((await d.sluice.flows.get(id))?.state).toBe('failed')
  })

  test('the longest text is read, and names a step that is unknown', async () => {
    const { d, id } = await open(store.create())
    await expect(d.sluice.flows.retry(id, { from: LONGEST })).rejects.toMatchObject({ code: 'flow.step_unknown' })
    for (const path of [`/flows/v1/flows/${id}/retry`, `/monitor/v1/flows/${id}/retry`])
      expect((await d.post(path, { from: LONGEST }, MONITOR)).status).toBe(422)
  })
})
