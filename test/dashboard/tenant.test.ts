// The pages that a token of one tenant sees, on a server of several tenants.
import { afterAll, describe, expect, it, onTestFinished } from 'vitest'
import type { Locator, Page } from 'playwright-core'
import { createPage } from '../../src/dashboard/page-files.ts'
import { createHttpApp } from '../../src/exports/http.ts'
import { silentLogger, Sluice } from '../../src/exports/index.ts'
import { listen } from '../../src/http/listen.ts'
import { onSqlite } from '../stores.ts'
import { findBrowser } from './browser.ts'

const browser = await findBrowser('the pages of a tenant in a browser')
afterAll(() => browser?.close())

const TOKENS = [
  { token: 'root-0123456789abcdef', name: 'root', scopes: ['admin'], tenant: '*' },
  { token: 'acme-0123456789abcdef', name: 'acme', scopes: ['admin'], tenant: 'acme' },
] as const

/** A server with a limit that its tenants share by their keys, and a job of each tenant. */
async function serveTenants(): Promise<string> {
  const sluice = new Sluice({ store: onSqlite.create(), tasks: [], queues: {}, logger: silentLogger })
  await sluice.start()
  const app = createHttpApp({
    sluice,
    tokens: TOKENS,
    limits: {
      limits: { crm: { rate: 2, per: '1h', burst: 1, shared: true, by: 'tenant' } },
      types: { sync: { limits: [{ limit: 'crm' }] } },
    },
  })
  await app.define()
  const page = createPage({ basePath: '/dashboard', api: '/monitor/v1', signIn: 'token' })
  const fetch = (request: Request): Promise<Response> =>
    page.serves(new URL(request.url).pathname) ? page.fetch(request) : app.fetch(request)
  const listening = await listen({ fetch }, { host: '127.0.0.1', port: 0 })
  onTestFinished(async () => {
    app.close()
    await listening.close(0)
    await sluice.stop({ within: 0 })
  })
  for (const tenant of ['acme', 'acme', 'beta'])
    await app.fetch(
      new Request(`${listening.url}/ojs/v1/jobs`, {
        method: 'POST',
        headers: {
          Authorization: `Bearer ${TOKENS[0].token}`,
          'Content-Type': 'application/json',
          'X-OJS-Tenant': tenant,
        },
        body: JSON.stringify({ type: 'sync', args: [1], options: { queue: 'q' } }),
      }),
    )
  return `${listening.url}/dashboard`
}

/** Signs in at a path, and waits for its page. */
async function signIn(page: Page, url: string, { token }: { readonly token: string }, title: string): Promise<void> {
  await page.goto(url)
  await page.getByLabel('Token of the server').fill(token)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.locator('h1', { hasText: title }).waitFor()
  await page.locator('[role=status]:has-text("Loading")').first().waitFor({ state: 'detached' })
}

const card = (page: Page, title: string): Locator => page.getByRole('heading', { name: title, exact: true })

describe.runIf(browser)('the dashboard of a tenant', () => {
  it('has no throughput of all tenants on the overview, and does not ask for it', async () => {
    const url = await serveTenants()
    const shown: boolean[] = []
    const asked: string[] = []
    for (const token of TOKENS) {
      const { page, complaints } = await browser!.window()
      page.on('request', (request) => {
        if (request.url().includes('/series')) asked.push(token.name)
      })
      // The tokens share the storage of one browser.
      await page.addInitScript('localStorage.clear(); sessionStorage.clear()')
      await signIn(page, url, token, 'Overview')
      await card(page, 'Why jobs wait').waitFor()
      shown.push((await card(page, 'Throughput').count()) > 0)
      expect([await page.getByRole('alert').count(), complaints]).toEqual([0, []])
    }
    expect(shown).toEqual([true, false])
    expect(new Set(asked)).toEqual(new Set(['root']))
  })

  it('shows its own key of a limit that all tenants share', async () => {
    const url = await serveTenants()
    const { page, complaints } = await browser!.window()
    await signIn(page, `${url}/limits/crm`, TOKENS[1], 'crm')
    await page.getByText('All tenants share this limit, so that only your own key acme is shown.').waitFor()
    await page
      .getByText('Nothing was measured yet')
      .or(page.getByLabel('Units of crm used over time'))
      .first()
      .waitFor()
    await page.getByRole('row', { name: /^acme/ }).waitFor()
    expect(await page.getByRole('alert').allTextContents()).toEqual([])
    expect(await page.locator('main').textContent()).not.toContain('beta')
    expect(complaints).toEqual([])
  })
})
