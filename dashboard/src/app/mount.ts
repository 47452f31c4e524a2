/** Where the server mounted the page, from the <base> that it wrote; ends without a slash. */
export const basePath: string = new URL(document.baseURI).pathname.replace(/\/$/, '')

/** Where the monitor API answers; ends without a slash. */
export const apiBase: string = new URL(
  document.querySelector<HTMLMetaElement>('meta[name="sluice-api"]')?.content ?? 'monitor/v1',
  document.baseURI,
).href.replace(/\/$/, '')

/** Whether the server knows a visitor by a token, which the page asks for, or the application that mounted the page does. */
export const signsIn: boolean =
  document.querySelector<HTMLMetaElement>('meta[name="sluice-sign-in"]')?.content === 'token'
