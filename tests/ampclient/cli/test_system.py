def test_whoami_tells_role_project_and_server(ampctl, address):
    assert ampctl("whoami").out.splitlines() == [
        "token    anna (ab12)",
        "role     member",
        "project  vision",
        f"server   {address}",
    ]
    assert ampctl("whoami", "--json").json()["role"] == "member"
