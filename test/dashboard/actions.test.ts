// The changes that the page makes, read back from the store.
import { afterAll, describe, expect, it } from 'vitest'
import type { Page } from 'playwright-core'
import type { Sluice } from '../../src/exports/index.ts'
import { everyStore } from '../stores.ts'
import { findBrowser, sceneOf, serveDashboard } from './browser.ts'
import { enqueueLater, enqueueMail, enqueueSync } from './busy-engine.ts'

const LEFT_OUT = 'the actions of the dashboard'
const browser = await findBrowser(LEFT_OUT)
const kinds = browser ? await everyStore(LEFT_OUT) : []
afterAll(() => browser?.close())

/** Presses a button of the page, fills the fields of its dialog, and confirms. */
async function act(page: Page, button: string, fields: Record<string, string> = {}, confirm = button): Promise<void> {
  await page.getByRole('button', { name: button, exact: true }).first().click()
  const dialog = page.getByRole('dialog')
  for (const [label, value] of Object.entries(fields)) await dialog.getByLabel(label, { exact: true }).fill(value)
  await dialog.getByRole('button', { name: confirm, exact: true }).click()
  await dialog.waitFor({ state: 'detached' })
}

/** Changes what is selected, waits until the server has done it, and closes the dialog, which stays to say so. */
async function bulk(page: Page, action: string, jobs: number, fields: Record<string, string> = {}): Promise<void> {
  await page.getByRole('button', { name: action, exact: true }).first().click()
  const dialog = page.getByRole('dialog')
  for (const [label, value] of Object.entries(fields)) await dialog.getByLabel(label, { exact: true }).fill(value)
  await dialog.getByRole('button', { name: `${action} ${jobs} jobs`, exact: true }).click()
  await page
    .getByTestId('bulk')
    .filter({ hasText: `${jobs} of ${jobs} changed` })
    .waitFor()
  await dialog.getByRole('button', { name: 'Close', exact: true }).first().click()
  await dialog.waitFor({ state: 'detached' })
}

const inForce = async (sluice: Sluice, limit: string): Promise<unknown[]> =>
  (await sluice.limits.overrides(limit)).filter(({ ended }) => ended === null)

describe.runIf(browser)('an action of the dashboard', () => {
  describe.each(kinds)('on $name', (kind) => {
    const scene = sceneOf(kind)
    const opened = async (): Promise<{ sluice: Sluice; page: Page; open: (path: string) => Promise<void> }> => {
      const { page } = await browser!.window()
      return { sluice: scene.sluice, page, open: async (path) => void (await page.goto(`${scene.url}${path}`)) }
    }

    it('overrides, pauses and resumes a limit and a key, with who and why', async () => {
      const { sluice, page, open } = await opened()
      await open('/limits/crm/keys/acme')
      await act(page, 'Override', { 'New numbers': '45 in any 1 min', Until: '30m', Why: 'they gave us more' })
      const [change] = await sluice.limits.overrides('crm')
      expect(change).toMatchObject({ key: 'acme', kind: 'override', by: 'ada', reason: 'they gave us more' })
      expect(change!.until!.getTime()).toBeGreaterThan(Date.now() + 29 * 60_000)
      await page.getByText('they gave us more').waitFor()
      await act(page, 'End override')
      await expect.poll(() => inForce(sluice, 'crm')).toEqual([])

      await open('/limits/mail')
      await act(page, 'Pause', { Why: 'the provider is down' })
      await expect
        .poll(() => sluice.limits.overrides('mail'))
        .toMatchObject([{ key: null, kind: 'pause', by: 'ada', reason: 'the provider is down' }])
      await act(page, 'Resume')
      await expect.poll(() => inForce(sluice, 'mail')).toEqual([])
    })

    it('shows what other numbers would do before they are set', async () => {
      const { sluice, page, open } = await opened()
      await open('/limits/crm')
      await page.getByRole('button', { name: 'Override' }).click()
      const forecast = page.getByTestId('forecast')
      await forecast.waitFor()
      await page.getByLabel('New numbers', { exact: true }).fill('300 in any 1 min')
      const cells = forecast.getByRole('row', { name: /Backlog drained/ }).getByRole('cell')
      await expect.poll(() => cells.last().textContent()).not.toBe(await cells.first().textContent())
      expect(await inForce(sluice, 'crm')).toEqual([])
    })

    it('closes a budget for a while', async () => {
      const { sluice, page, open } = await opened()
      await open('/limits/crm/keys/acme')
      await act(page, 'Penalty', { Until: '10m' })
      const [bucket] = await sluice.limits.inspect('crm', 'acme')
      expect(bucket!.nextStart!.getTime()).toBeGreaterThan(Date.now() + 9 * 60_000)
    })

    it('cancels, retries and deletes a job', async () => {
      const { sluice, page, open } = await opened()
      const waiting = await enqueueSync('acme')
      await open(`/jobs/${waiting}`)
      await act(page, 'Cancel')
      await expect.poll(() => sluice.jobs.get(waiting)).toMatchObject({ state: 'cancelled' })
      await act(page, 'Delete')
      await expect.poll(() => sluice.jobs.get(waiting)).toBeNull()

      await expect.poll(async () => (await sluice.jobs.list({ states: ['discarded'] })).length).toBeGreaterThan(0)
      const declined = (await sluice.jobs.list({ states: ['discarded'] })).find(({ task }) => task === 'card.charge')
      await open(`/jobs/${declined!.id}`)
      await page.getByText('card declined').first().waitFor()
      await act(page, 'Retry')
      // It is declined again, but by another attempt.
      await expect.poll(async () => (await sluice.jobs.get(declined!.id))?.finishedAt).not.toEqual(declined!.finishedAt)
    })

    it('runs a scheduled job now, and says which budget forbids it', async () => {
      const { sluice, page, open } = await opened()
      const free = await enqueueLater('a tenant with a whole budget')
      await open(`/jobs/${free}`)
      await act(page, 'Run now')
      await expect.poll(() => sluice.jobs.get(free)).toMatchObject({ state: 'completed' })

      const held = await enqueueLater('acme')
      await open(`/jobs/${held}`)
      await page.getByRole('button', { name: 'Run now' }).click()
      const dialog = page.getByRole('dialog')
      await dialog.getByRole('button', { name: 'Run now' }).click()
      await dialog.getByRole('alert').filter({ hasText: 'the budget of crm for acme' }).waitFor()
      expect(await sluice.jobs.get(held)).toMatchObject({ state: 'scheduled' })
    })

    it('gives a waiting job another priority and another time', async () => {
      const { sluice, page, open } = await opened()
      const id = await enqueueSync('acme')
      await open(`/jobs/${id}`)
      await act(page, 'Change', { Priority: '7' })
      await expect.poll(() => sluice.jobs.get(id)).toMatchObject({ state: 'available', priority: 7 })
      await act(page, 'Change', { 'Not before': '2h' })
      await expect.poll(() => sluice.jobs.get(id)).toMatchObject({ state: 'scheduled', priority: 7 })
      await page.getByRole('button', { name: 'Change' }).click()
      const dialog = page.getByRole('dialog')
      await dialog.getByLabel('Not before').fill('soon')
      await dialog.getByRole('button', { name: 'Change' }).click()
      await dialog.getByRole('alert').filter({ hasText: 'soon' }).waitFor()
    })

    it('moves and deletes the jobs that are selected, and no others', async () => {
      const { sluice, page, open } = await opened()
      const [one, two, spared] = await Promise.all(
        ['one', 'two', 'spared'].map((name) => enqueueMail(`${name}@example.com`, name, 'chosen')),
      )
      await open('/jobs?queue=chosen')
      for (const id of [one, two]) await page.getByRole('checkbox', { name: new RegExp(`${id}$`) }).check()
      await bulk(page, 'Move', 2, { 'To queue': 'elsewhere' })
      const queueOf = async (id: string | undefined): Promise<string | undefined> =>
        (await sluice.jobs.get(id ?? ''))?.queue
      expect([await queueOf(one), await queueOf(two), await queueOf(spared)]).toEqual([
        'elsewhere',
        'elsewhere',
        'chosen',
      ])

      for (const id of [one, two, spared]) await sluice.jobs.cancel(id ?? '')
      await open('/jobs?task=mail.send&state=cancelled')
      for (const id of [one, two]) await page.getByRole('checkbox', { name: new RegExp(`${id}$`) }).check()
      await bulk(page, 'Delete', 2)
      const left = await Promise.all([one, two, spared].map((id) => sluice.jobs.get(id ?? '')))
      expect(left).toMatchObject([null, null, { state: 'cancelled' }])
    })

    it('counts all that match, changes them in bulk, and nothing else', async () => {
      const { sluice, page, open } = await opened()
      const spared = await enqueueSync('acme')
      await Promise.all(Array.from({ length: 30 }, (_, n) => enqueueMail(`bulk+${n}@example.com`, 'bulk', 'bulk')))
      await open('/jobs?queue=bulk')
      await page.getByRole('button', { name: /Select all 30 that match/ }).click()
      await page.getByRole('button', { name: 'Cancel', exact: true }).click()
      await page.getByTestId('dry-run').filter({ hasText: '30 jobs' }).waitFor()
      await page.getByLabel('Why').fill('sent twice')
      await page.getByRole('button', { name: 'Cancel 30 jobs' }).click()
      await page.getByTestId('bulk').filter({ hasText: '30 of 30 changed' }).waitFor()
      const states = (await sluice.jobs.list({ queue: 'bulk' })).map(({ state }) => state)
      expect(new Set(states)).toEqual(new Set(['cancelled']))
      expect(await sluice.jobs.get(spared)).not.toMatchObject({ state: 'cancelled' })
      await open('/bulk')
      await page.getByText('sent twice').waitFor()
    })

    it('pauses, resumes and bounds a queue', async () => {
      const { sluice, page, open } = await opened()
      await open('/queues')
      await page.getByRole('button', { name: 'Pause mail' }).click()
      await page.getByRole('dialog').getByRole('button', { name: 'Pause', exact: true }).click()
      await page.getByRole('row', { name: /^mail paused/ }).waitFor()
      await page.getByRole('button', { name: 'Resume mail' }).click()
      await page.getByRole('dialog').getByRole('button', { name: 'Resume', exact: true }).click()
      await page.getByRole('row', { name: /^mail(?! paused)/ }).waitFor()
      await page.getByRole('button', { name: 'Bound mail' }).click()
      await page.getByRole('dialog').getByLabel('At most').fill('500')
      await page.getByRole('dialog').getByRole('button', { name: 'Bound', exact: true }).click()
      await page.getByText('at most 500').waitFor()
      expect(await sluice.jobs.list({ queue: 'mail' })).toBeDefined()
    })

    it('waits until a queue is empty, and says whether it is', async () => {
      const { sluice, page, open } = await opened()
      const id = await enqueueMail('drain@example.com', 'drain', 'drained')
      await open('/queues')
      await page.getByRole('button', { name: 'Drain drained' }).click()
      const dialog = page.getByRole('dialog')
      const drain = dialog.getByRole('button', { name: 'Drain', exact: true })
      await dialog.getByLabel('For at most').fill('1h')
      await drain.click()
      await dialog.getByRole('alert').filter({ hasText: 'at most 1m' }).waitFor()
      await dialog.getByLabel('For at most').fill('1ms')
      await drain.click()
      await dialog.getByRole('status').filter({ hasText: 'still wait or run' }).waitFor()
      await sluice.jobs.cancel(id)
      await dialog.getByLabel('For at most').fill('1m')
      await drain.click()
      await expect.poll(() => dialog.getByRole('status').textContent()).toBe('No job of drained waits or runs.')
      await dialog.getByRole('button', { name: 'Close', exact: true }).first().click()
      await dialog.waitFor({ state: 'detached' })
    })

    it('runs a schedule once more, pauses it and ends the pause', async () => {
      const { sluice, page, open } = await opened()
      const state = async (): Promise<string | undefined> => (await sluice.schedules.get('sync acme'))?.state
      await open('/schedules')
      await act(page, 'Run now: sync acme', {}, 'Run now')
      await act(page, 'Pause sync acme', {}, 'Pause')
      await expect.poll(state).toBe('paused')
      await act(page, 'Resume sync acme', {}, 'Resume')
      await expect.poll(state).toBe('active')
    })

    it('removes a schedule', async () => {
      const { sluice, page, open } = await opened()
      await open('/schedules')
      await act(page, 'Remove weekday digest', {}, 'Remove')
      await expect
        .poll(async () => (await sluice.schedules.list()).map(({ name }) => name))
        .not.toContain('weekday digest')
    })

    it('enqueues a job and starts a flow', async () => {
      const { sluice, page, open } = await opened()
      await open('/jobs')
      await act(page, 'Enqueue', { Task: 'from.page', Input: '{"a":1}', Limits: 'crm=acme', Why: 'by hand' })
      await expect.poll(() => sluice.jobs.list({ task: 'from.page' })).toMatchObject([{ input: { a: 1 } }])
      await open('/flows')
      await act(page, 'Start', { Workflow: 'tenant.onboard', Input: '{"tenant":"fir"}', Key: 'by hand' })
      await expect.poll(() => sluice.flows.list({ key: 'by hand' })).toMatchObject([{ name: 'tenant.onboard' }])
      const [flow] = await sluice.flows.list({ key: 'by hand' })
      // The dialog keeps what was written.
      await page.getByRole('button', { name: 'Start', exact: true }).first().click()
      const dialog = page.getByRole('dialog')
      await dialog.getByRole('button', { name: 'Start', exact: true }).click()
      await dialog.getByRole('status').filter({ hasText: 'Nothing was started' }).waitFor()
      await dialog.getByRole('link', { name: flow!.id }).click()
      await page.waitForURL(`**/flows/${flow!.id}`)
    })

    it('signals, cancels and retries a flow', async () => {
      const { sluice, page, open } = await opened()
      const find = async (workflow: string): Promise<string> => (await sluice.flows.list({ workflow }))[0]!.id
      const awaiting = await find('tenant.onboard')
      await open(`/flows/${awaiting}`)
      await page.getByText('approved').first().waitFor()
      await act(page, 'Signal', { Payload: '{ "by": "ann" }' })
      await expect.poll(() => sluice.flows.inspect(awaiting)).toMatchObject({ state: 'completed' })

      const failed = await find('invoice.issue')
      await expect.poll(() => sluice.flows.inspect(failed)).toMatchObject({ state: 'failed' })
      const before = (await sluice.flows.inspect(failed))!.finishedAt
      await open(`/flows/${failed}`)
      await page.getByRole('button', { name: 'send', exact: false }).first().click()
      await act(page, 'Retry from here')
      await expect.poll(async () => (await sluice.flows.inspect(failed))!.finishedAt).not.toEqual(before)

      const running = (await sluice.flows.list({ workflow: 'tenant.onboard', states: ['running'] }))[0]!.id
      await open(`/flows/${running}`)
      await act(page, 'Cancel')
      await expect.poll(() => sluice.flows.inspect(running)).toMatchObject({ state: 'cancelled' })
    })

    it('is not offered to who may only read', async () => {
      const { url } = await serveDashboard(scene.sluice, { authorize: () => 'reader' })
      const { page } = await browser!.window()
      for (const path of ['/limits/crm', '/queues', '/schedules', `/jobs/${await enqueueSync('acme')}`]) {
        await page.goto(`${url}${path}`)
        await page.getByText('reads only').waitFor()
        await page.locator('h1').waitFor()
        expect({
          path,
          buttons: await page.getByRole('button', { name: /Pause|Cancel|Override|Remove|Run/ }).count(),
        }).toEqual({ path, buttons: 0 })
      }
    })
  })
})
