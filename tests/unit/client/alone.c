/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* A program that holds all of one room of the client, and what that room may call. */
int main(void)
{
	return 0;
}
